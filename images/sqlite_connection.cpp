#include "images/sqlite_connection.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr int busy_timeout_ms = 10'000;
// The log gets as long as this, and one transaction longer.
constexpr int checkpoint_pages = 200;
constexpr std::int64_t room_bytes = 1 << 20;
constexpr std::int64_t spare_bytes = 128 << 10;

[[noreturn]] void fail(sqlite3* connection) {
  const int code = ::sqlite3_errcode(connection) & 0xff;
  throw os::Error(code == SQLITE_FULL ? ENOSPC : EIO, "sqlite", ::sqlite3_errmsg(connection));
}

void check(sqlite3* connection, int result) {
  if (result != SQLITE_OK) fail(connection);
}

// 0 where there is no such file.
std::int64_t size_of(const std::string& path) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(path, absent);
  return absent ? 0 : static_cast<std::int64_t>(size);
}

// A file of nothing, to be deleted in need.
class SpareRoom {
public:
  explicit SpareRoom(std::string path) : path_(std::move(path)) {}

  // True where there was some.
  [[nodiscard]] bool give_up() const noexcept { return ::unlink(path_.c_str()) == 0; }

  void take() const {
    if (size_of(path_) == spare_bytes) return;
    const os::UniqueFd file = os::open_file(path_, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
    const int result = ::posix_fallocate(file.get(), 0, spare_bytes);
    if (result == 0) return;
    static_cast<void>(give_up());
    throw os::Error(result, "posix_fallocate", path_);
  }

private:
  std::string path_;
};

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  ::sqlite3_finalize(statement);
}

Statement::Statement(sqlite3* connection, std::string_view sql) : connection_(connection) {
  sqlite3_stmt* statement = nullptr;
  check(connection, ::sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()),
                                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  statement_.reset(statement);
}

Statement& Statement::bind(int parameter, std::string_view text) {
  check(connection_, ::sqlite3_bind_text(statement_.get(), parameter, text.data(),
                                         static_cast<int>(text.size()), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int parameter, std::int64_t number) {
  check(connection_, ::sqlite3_bind_int64(statement_.get(), parameter, number));
  return *this;
}

Statement& Statement::bind_bytes(int parameter, std::string_view bytes) {
  // Nothing at all would be NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  check(connection_,
        ::sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

bool Statement::step() {
  const int result = ::sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) {
    reset();
    return false;
  }
  reset();
  fail(connection_);
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() noexcept { ::sqlite3_reset(statement_.get()); }

std::string Statement::text(int column) const {
  const auto* text = ::sqlite3_column_text(statement_.get(), column);
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement_.get(), column));
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text), size);
}

std::int64_t Statement::number(int column) const {
  return ::sqlite3_column_int64(statement_.get(), column);
}

void SqliteConnection::Close::operator()(sqlite3* connection) const noexcept {
  ::sqlite3_close_v2(connection);
}

SqliteConnection::SqliteConnection(const std::string& path) : path_(path) {
  const SpareRoom spare(path + "-room");
  try {
    open();
  } catch (const os::Error&) {
    // The index of the log ("-shm", 32 KiB) is made anew by the first who opens.
    if (!spare.give_up()) throw;
    open();
  }
  try {
    keep_log();
    keep_free_pages();
    spare.take();
  } catch (const os::Error& error) {
    if (error.error_number() != ENOSPC) throw;  // made when there is room again, at another start
  }
}

void SqliteConnection::open() {
  sqlite3* connection = nullptr;
  const int result =
      ::sqlite3_open_v2(path_.c_str(), &connection,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(connection);
  check(connection, result);
  ::sqlite3_busy_timeout(connection, busy_timeout_ms);
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("PRAGMA foreign_keys=ON");
  static_cast<void>(ask("SELECT count(*) FROM sqlite_schema"));  // reads, and so opens the log
}

// The log outlives the last connection, as long as it is, and is written over from its beginning
// after each checkpoint.
void SqliteConnection::keep_log() {
  int on = 1;
  check(connection_.get(),
        ::sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_PERSIST_WAL, &on));
  run("PRAGMA wal_autocheckpoint=" + std::to_string(checkpoint_pages));
}

// A table that comes and goes: its pages stay in the file, and the log becomes as long.
void SqliteConnection::keep_free_pages() {
  const std::int64_t free_bytes = ask("PRAGMA freelist_count") * ask("PRAGMA page_size");
  if (free_bytes >= room_bytes / 2 && size_of(path_ + "-wal") >= room_bytes) return;
  {
    Transaction transaction(*this);
    run("CREATE TABLE IF NOT EXISTS room(bytes BLOB)");
    run("INSERT INTO room VALUES(zeroblob(" + std::to_string(room_bytes) + "))");
    transaction.commit();
  }
  run("DROP TABLE IF EXISTS room");
  run("PRAGMA wal_checkpoint(PASSIVE)");
}

std::int64_t SqliteConnection::ask(std::string_view sql) {
  Statement question = prepare(sql);
  const std::int64_t answer = question.step() ? question.number(0) : 0;
  question.reset();
  return answer;
}

std::int64_t SqliteConnection::schema_version(std::int64_t known) {
  const std::int64_t found = ask("PRAGMA user_version");
  if (found > known)
    throw os::Error(EPROTO, "open",
                    path_ + ", written by a newer version of daiv-sandbox: schema " +
                        std::to_string(found) + " where this one knows " + std::to_string(known));
  return found;
}

void SqliteConnection::run(std::string_view sql) {
  const std::string text(sql);
  check(connection_.get(),
        ::sqlite3_exec(connection_.get(), text.c_str(), nullptr, nullptr, nullptr));
}

Transaction::Transaction(SqliteConnection& connection) : connection_(&connection) {
  connection.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  try {
    connection_->run("ROLLBACK");
  } catch (const std::exception&) {
    return;  // SQLite has rolled back by itself, as it does when the disk is full
  }
}

void Transaction::commit() {
  connection_->run("COMMIT");
  connection_ = nullptr;
}

}  // namespace daiv::images
