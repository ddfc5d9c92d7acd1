#include "sessions/session_database.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>

#include "images/sqlite_connection.hpp"
#include "wire/codec.hpp"

namespace daiv::sessions {
namespace {

using images::SqliteConnection;
using images::Statement;
using images::Transaction;

constexpr std::int64_t schema_version = 2;
constexpr std::uint32_t max_texts = 1U << 20;

constexpr const char* schema = R"sql(
CREATE TABLE session (
  id TEXT PRIMARY KEY, image_id TEXT NOT NULL, image_reference TEXT NOT NULL, layers BLOB NOT NULL,
  environment BLOB NOT NULL, memory_bytes INTEGER NOT NULL, cpu_millis INTEGER NOT NULL, pids INTEGER NOT NULL,
  uid_base INTEGER NOT NULL UNIQUE, run_uid INTEGER NOT NULL, run_gid INTEGER NOT NULL, running INTEGER NOT NULL,
  seeded INTEGER NOT NULL, created_ms INTEGER NOT NULL, last_used_ms INTEGER NOT NULL, stopped_ms INTEGER NOT NULL,
  egress_port INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
)sql";

constexpr const char* migration_to_2 =
    "ALTER TABLE session ADD COLUMN egress_port INTEGER NOT NULL DEFAULT 0";

constexpr const char* count_egress_columns =
    "SELECT count(*) FROM pragma_table_info('session') WHERE name = 'egress_port'";

constexpr const char* save_sql =
    "INSERT INTO session VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17) "
    "ON CONFLICT(id) DO UPDATE SET running=?12, seeded=?13, last_used_ms=?15, stopped_ms=?16, "
    "egress_port=?17";

std::string encode(const std::vector<std::string>& values) {
  wire::Writer writer;
  writer.texts(values);
  return writer.take();
}

std::vector<std::string> decode(const std::string& bytes) {
  wire::Reader reader(bytes);
  std::vector<std::string> values = reader.texts(max_texts);
  reader.finish();
  return values;
}

std::int64_t to_ms(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Time from_ms(std::int64_t milliseconds) { return Time(std::chrono::milliseconds(milliseconds)); }

SessionRecord read_record(const Statement& row) {
  SessionRecord record;
  record.id = row.text(0);
  record.image_id = row.text(1);
  record.image_reference = row.text(2);
  record.layers = decode(row.text(3));
  record.environment = decode(row.text(4));
  record.limits.memory_bytes = static_cast<std::uint64_t>(row.number(5));
  record.limits.cpu_millis = static_cast<std::uint64_t>(row.number(6));
  record.limits.pids = static_cast<std::uint64_t>(row.number(7));
  record.uid_base = static_cast<std::uint32_t>(row.number(8));
  record.run_uid = static_cast<std::uint32_t>(row.number(9));
  record.run_gid = static_cast<std::uint32_t>(row.number(10));
  record.state = row.number(11) != 0 ? SessionState::running : SessionState::stopped;
  record.seeded = row.number(12) != 0 ? Seeded::yes : Seeded::no;
  record.created = from_ms(row.number(13));
  record.last_used = from_ms(row.number(14));
  record.stopped = from_ms(row.number(15));
  record.egress_port = static_cast<std::uint16_t>(row.number(16));
  return record;
}

// All of it or nothing: what is half there could not be opened any more.
void bring_up_to_date(SqliteConnection& connection) {
  Transaction transaction(connection);
  const std::int64_t found = connection.schema_version(schema_version);
  if (found == schema_version) return;
  // Former versions made their changes one by one: any of them may be there without its number.
  if (found == 0) {
    connection.run("DROP TABLE IF EXISTS session");
    connection.run(schema);
  } else if (connection.ask(count_egress_columns) == 0) {
    connection.run(migration_to_2);
  }
  connection.run("PRAGMA user_version = " + std::to_string(schema_version));
  transaction.commit();
}

}  // namespace

struct SessionDatabase::Impl {
  explicit Impl(const std::string& path) : connection(path) { bring_up_to_date(connection); }

  std::mutex mutex;  // one statement at a time: the connection is shared by the pool's threads
  SqliteConnection connection;
};

SessionDatabase::SessionDatabase(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}

SessionDatabase::~SessionDatabase() = default;

std::vector<SessionRecord> SessionDatabase::load() {
  const std::scoped_lock lock(impl_->mutex);
  Statement select = impl_->connection.prepare("SELECT * FROM session");
  std::vector<SessionRecord> records;
  while (select.step()) records.push_back(read_record(select));
  return records;
}

void SessionDatabase::save(const SessionRecord& record) {
  const std::scoped_lock lock(impl_->mutex);
  Statement save = impl_->connection.prepare(save_sql);
  save.bind(1, record.id).bind(2, record.image_id).bind(3, record.image_reference);
  save.bind_bytes(4, encode(record.layers)).bind_bytes(5, encode(record.environment));
  save.bind(6, static_cast<std::int64_t>(record.limits.memory_bytes))
      .bind(7, static_cast<std::int64_t>(record.limits.cpu_millis))
      .bind(8, static_cast<std::int64_t>(record.limits.pids));
  save.bind(9, record.uid_base).bind(10, record.run_uid).bind(11, record.run_gid);
  save.bind(12, record.state == SessionState::running ? 1 : 0)
      .bind(13, record.seeded == Seeded::yes ? 1 : 0);
  save.bind(14, to_ms(record.created))
      .bind(15, to_ms(record.last_used))
      .bind(16, to_ms(record.stopped))
      .bind(17, record.egress_port);
  save.run();
}

void SessionDatabase::touch(const std::string& id, Time last_used) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->connection.prepare("UPDATE session SET last_used_ms=?1 WHERE id=?2")
      .bind(1, to_ms(last_used))
      .bind(2, id)
      .run();
}

void SessionDatabase::remove(const std::string& id) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->connection.prepare("DELETE FROM session WHERE id=?1").bind(1, id).run();
}

}  // namespace daiv::sessions
