#include "sessions/session_database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <mutex>
#include <string_view>

#include "wire/codec.hpp"

namespace daiv::sessions {
namespace {

constexpr int schema_version = 2;
constexpr int busy_timeout_ms = 5000;
constexpr std::uint32_t max_texts = 1U << 20;

constexpr const char* schema = R"sql(
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY, image_id TEXT NOT NULL, image_reference TEXT NOT NULL, layers BLOB NOT NULL,
  environment BLOB NOT NULL, memory_bytes INTEGER NOT NULL, cpu_millis INTEGER NOT NULL, pids INTEGER NOT NULL,
  uid_base INTEGER NOT NULL UNIQUE, run_uid INTEGER NOT NULL, run_gid INTEGER NOT NULL, running INTEGER NOT NULL,
  seeded INTEGER NOT NULL, created_ms INTEGER NOT NULL, last_used_ms INTEGER NOT NULL, stopped_ms INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
)sql";

constexpr const char* schema_2 =
    "ALTER TABLE session ADD COLUMN egress_port INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = "
    "2;";

constexpr const char* save_sql =
    "INSERT INTO session VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17) "
    "ON CONFLICT(id) DO UPDATE SET running=?12, seeded=?13, last_used_ms=?15, stopped_ms=?16, "
    "egress_port=?17";

struct CloseDatabase {
  void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

[[noreturn]] void fail(sqlite3* database, std::string_view what) {
  throw DatabaseError(fmt::format("sqlite {}: {}", what, sqlite3_errmsg(database)));
}

void execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(database, "exec");
}

// A prepared statement.
class Statement {
public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    if (sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK)
      fail(database, "prepare");
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& integer(std::int64_t value) {
    if (sqlite3_bind_int64(statement_, ++bound_, value) != SQLITE_OK) fail(database_, "bind");
    return *this;
  }
  Statement& text(const std::string& value) {
    if (sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8) != SQLITE_OK) {
      fail(database_, "bind");
    }
    return *this;
  }
  Statement& texts(const std::vector<std::string>& values) {
    wire::Writer writer;
    writer.texts(values);
    const std::string bytes = writer.take();
    if (sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT) !=
        SQLITE_OK) {
      fail(database_, "bind");
    }
    return *this;
  }
  // True where there is a row.
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) fail(database_, "step");
    return false;
  }
  std::int64_t read_integer() { return sqlite3_column_int64(statement_, read_++); }
  std::string read_text() {
    const void* bytes = sqlite3_column_blob(statement_, read_);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, read_++));
    return size == 0 ? std::string() : std::string(static_cast<const char*>(bytes), size);
  }
  std::vector<std::string> read_texts() {
    const std::string bytes = read_text();
    wire::Reader reader(bytes);
    std::vector<std::string> values = reader.texts(max_texts);
    reader.finish();
    return values;
  }
  void rewind_columns() { read_ = 0; }

private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  int read_ = 0;
};

std::int64_t to_ms(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Time from_ms(std::int64_t milliseconds) { return Time(std::chrono::milliseconds(milliseconds)); }

SessionRecord read_record(Statement& row) {
  row.rewind_columns();
  SessionRecord record;
  record.id = row.read_text();
  record.image_id = row.read_text();
  record.image_reference = row.read_text();
  record.layers = row.read_texts();
  record.environment = row.read_texts();
  record.limits.memory_bytes = static_cast<std::uint64_t>(row.read_integer());
  record.limits.cpu_millis = static_cast<std::uint64_t>(row.read_integer());
  record.limits.pids = static_cast<std::uint64_t>(row.read_integer());
  record.uid_base = static_cast<std::uint32_t>(row.read_integer());
  record.run_uid = static_cast<std::uint32_t>(row.read_integer());
  record.run_gid = static_cast<std::uint32_t>(row.read_integer());
  record.state = row.read_integer() != 0 ? SessionState::running : SessionState::stopped;
  record.seeded = row.read_integer() != 0 ? Seeded::yes : Seeded::no;
  record.created = from_ms(row.read_integer());
  record.last_used = from_ms(row.read_integer());
  record.stopped = from_ms(row.read_integer());
  record.egress_port = static_cast<std::uint16_t>(row.read_integer());
  return record;
}

}  // namespace

struct SessionDatabase::Impl {
  std::mutex mutex;  // one statement at a time: the connection is shared by the pool's threads
  Database database;
};

SessionDatabase::SessionDatabase(const std::string& path) : impl_(std::make_unique<Impl>()) {
  sqlite3* opened = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  impl_->database.reset(opened);
  if (result != SQLITE_OK) fail(opened, "open " + path);
  sqlite3_busy_timeout(opened, busy_timeout_ms);
  // NORMAL with a write-ahead log syncs at checkpoints only
  // (sqlite.org/pragma.html#pragma_synchronous): a commit costs no fsync. What a power cut takes is
  // a session whose client hardly had its id; reconciliation removes its rest.
  execute(opened, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;");
  Statement version(opened, "PRAGMA user_version");
  const std::int64_t found = version.step() ? version.read_integer() : 0;
  if (found > schema_version) {
    throw DatabaseError(
        fmt::format("{}: written by a newer version of daiv-sandbox (schema {}, this one knows {})",
                    path, found, schema_version));
  }
  if (found == 0) execute(opened, schema);
  if (found < 2) execute(opened, schema_2);
}

SessionDatabase::~SessionDatabase() = default;

std::vector<SessionRecord> SessionDatabase::load() {
  const std::scoped_lock lock(impl_->mutex);
  Statement select(impl_->database.get(), "SELECT * FROM session");
  std::vector<SessionRecord> records;
  while (select.step()) records.push_back(read_record(select));
  return records;
}

void SessionDatabase::save(const SessionRecord& record) {
  const std::scoped_lock lock(impl_->mutex);
  Statement save(impl_->database.get(), save_sql);
  save.text(record.id).text(record.image_id).text(record.image_reference);
  save.texts(record.layers).texts(record.environment);
  save.integer(static_cast<std::int64_t>(record.limits.memory_bytes))
      .integer(static_cast<std::int64_t>(record.limits.cpu_millis))
      .integer(static_cast<std::int64_t>(record.limits.pids));
  save.integer(record.uid_base).integer(record.run_uid).integer(record.run_gid);
  save.integer(record.state == SessionState::running ? 1 : 0)
      .integer(record.seeded == Seeded::yes ? 1 : 0);
  save.integer(to_ms(record.created))
      .integer(to_ms(record.last_used))
      .integer(to_ms(record.stopped))
      .integer(record.egress_port);
  save.step();
}

void SessionDatabase::touch(const std::string& id, Time last_used) {
  const std::scoped_lock lock(impl_->mutex);
  Statement update(impl_->database.get(), "UPDATE session SET last_used_ms=?1 WHERE id=?2");
  update.integer(to_ms(last_used)).text(id);
  update.step();
}

void SessionDatabase::remove(const std::string& id) {
  const std::scoped_lock lock(impl_->mutex);
  Statement remove(impl_->database.get(), "DELETE FROM session WHERE id=?1");
  remove.text(id);
  remove.step();
}

}  // namespace daiv::sessions
