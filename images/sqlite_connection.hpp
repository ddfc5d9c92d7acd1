#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace daiv::images {

// A prepared statement (sqlite3_prepare_v3). Parameters and columns are numbered as SQLite does it:
// from 1, from 0. Failures throw os::Error: ENOSPC where the disk is full, EIO otherwise, with
// SQLite's words.
class Statement {
public:
  Statement(sqlite3* connection, std::string_view sql);

  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, std::int64_t number);
  Statement& bind_bytes(int parameter, std::string_view bytes);
  // True with a row, false when done.
  bool step();
  // Steps to the end and makes it ready for the next use.
  void run();
  void reset() noexcept;
  [[nodiscard]] std::string text(int column) const;  // of bytes too
  [[nodiscard]] std::int64_t number(int column) const;

private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };

  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One connection to a database in WAL mode, whose commits are on disk when they return
// (synchronous=FULL). Safe beside other processes: who finds it locked waits up to ten seconds. One
// thread at a time.
//
// It opens, and takes small changes, on a full disk too, where records have to go for room to be
// made: what is written over was allocated before.
class SqliteConnection {
public:
  // Opens or creates `path`; beside it lie SQLite's "-wal" and "-shm", and a "-room" of ours.
  explicit SqliteConnection(const std::string& path);

  void run(std::string_view sql);
  [[nodiscard]] Statement prepare(std::string_view sql) { return {connection_.get(), sql}; }
  // The first number of the first row; 0 where there is none.
  [[nodiscard]] std::int64_t ask(std::string_view sql);
  // The version of the schema (user_version); 0 where there is none. Throws os::Error (EPROTO)
  // where it is above `known`: a newer version of this program wrote it.
  [[nodiscard]] std::int64_t schema_version(std::int64_t known);

private:
  void open();
  void keep_log();
  void keep_free_pages();

  struct Close {
    void operator()(sqlite3* connection) const noexcept;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

// BEGIN IMMEDIATE … COMMIT; rolled back by the destructor where commit() was not called.
class Transaction {
public:
  explicit Transaction(SqliteConnection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

private:
  SqliteConnection* connection_;
};

}  // namespace daiv::images
