#include "images/sqlite_connection.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "os/error.hpp"

namespace daiv::images {

namespace {

constexpr int busy_timeout_ms = 10'000;

[[noreturn]] void fail(sqlite3* connection) {
  const int code = ::sqlite3_errcode(connection) & 0xff;
  throw os::Error(code == SQLITE_FULL ? ENOSPC : EIO, "sqlite", ::sqlite3_errmsg(connection));
}

void check(sqlite3* connection, int result) {
  if (result != SQLITE_OK) fail(connection);
}

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

SqliteConnection::SqliteConnection(const std::string& path) {
  sqlite3* connection = nullptr;
  const int result =
      ::sqlite3_open_v2(path.c_str(), &connection,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(connection);
  check(connection, result);
  ::sqlite3_busy_timeout(connection, busy_timeout_ms);
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("PRAGMA foreign_keys=ON");
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
