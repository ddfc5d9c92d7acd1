#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <set>

#include "os/error.hpp"
#include "os/io.hpp"
#include "sessions/output_spool.hpp"
#include "sessions/session_database.hpp"

namespace daiv::sessions {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct StorageTest : testing::Test {
  StorageTest() {
    std::string name = (fs::temp_directory_path() / "daiv-storage.XXXXXX").string();
    directory = ::mkdtemp(name.data());
  }
  ~StorageTest() override { fs::remove_all(directory); }
  [[nodiscard]] std::string database() const { return directory + "/state.db"; }
  std::string directory;
};

SessionRecord sample() {
  SessionRecord record;
  record.id = make_session_id();
  record.image_id = "sha256:1";
  record.image_reference = "docker.io/library/x:1";
  record.layers = {"aaaaaa", "bbbbbb"};
  record.environment = {"A=b", std::string("N=\n\xff")};
  record.limits = {1ULL << 40, 500, 4096};
  record.uid_base = 0x70010000;
  record.run_uid = 1000;
  record.run_gid = 1001;
  record.created = record.last_used = Time(1234567ms);
  return record;
}

TEST_F(StorageTest, ARecordComesBackWhole) {
  SessionRecord saved = sample();
  SessionDatabase(database()).save(saved);
  const auto loaded = SessionDatabase(database()).load();
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].id, saved.id);
  EXPECT_EQ(loaded[0].layers, saved.layers);
  EXPECT_EQ(loaded[0].environment, saved.environment);
  EXPECT_EQ(loaded[0].limits.memory_bytes, saved.limits.memory_bytes);
  EXPECT_EQ(loaded[0].uid_base, saved.uid_base);
  EXPECT_EQ(loaded[0].run_gid, 1001U);
  EXPECT_EQ(loaded[0].state, SessionState::running);
  EXPECT_EQ(loaded[0].created, saved.created);
}

TEST_F(StorageTest, AChangeOfStateReplacesTheRecord) {
  SessionDatabase sessions(database());
  SessionRecord record = sample();
  sessions.save(record);
  record.state = SessionState::stopped;
  record.seeded = Seeded::yes;
  record.stopped = Time(99s);
  sessions.save(record);
  sessions.touch(record.id, Time(100s));
  const auto loaded = sessions.load();
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].state, SessionState::stopped);
  EXPECT_EQ(loaded[0].seeded, Seeded::yes);
  EXPECT_EQ(loaded[0].stopped, Time(99s));
  EXPECT_EQ(loaded[0].last_used, Time(100s));
  sessions.remove(record.id);
  EXPECT_TRUE(sessions.load().empty());
}

TEST_F(StorageTest, TwoSessionsCannotHaveOneUidRange) {
  SessionDatabase sessions(database());
  SessionRecord record = sample();
  sessions.save(record);
  record.id = make_session_id();
  EXPECT_THROW(sessions.save(record), os::Error);
}

void run_sql(const std::string& path, const char* sql) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
  sqlite3_close(raw);
}

TEST_F(StorageTest, OpensWhatAnEndInTheMiddleOfItsMakingLeft) {
  // A table without its version, and a column without its version.
  run_sql(database(), "CREATE TABLE session (id TEXT PRIMARY KEY) WITHOUT ROWID");
  SessionDatabase(database()).save(sample());
  run_sql(database(), "PRAGMA user_version = 1");
  EXPECT_EQ(SessionDatabase(database()).load().size(), 1U);
}

TEST_F(StorageTest, AVersionOneDatabaseIsBroughtUpToDate) {
  SessionDatabase(database()).save(sample());
  run_sql(database(), "ALTER TABLE session DROP COLUMN egress_port; PRAGMA user_version = 1");
  const auto loaded = SessionDatabase(database()).load();
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].egress_port, 0);
}

TEST_F(StorageTest, ADatabaseOfANewerVersionIsRefused) {
  {
    const SessionDatabase sessions(database());
  }
  run_sql(database(), "PRAGMA user_version = 99");
  EXPECT_THROW(SessionDatabase{database()}, os::Error);
}

// A disk of its own, of four megabytes.
struct SmallDisk {
  explicit SmallDisk(std::string where) : path(std::move(where)) {
    fs::create_directory(path);
    os::check(::mount("none", path.c_str(), "tmpfs", 0, "size=4m"), "mount", path);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() { ::umount2(path.c_str(), MNT_DETACH); }

  // Until nothing more goes in.
  void fill() const {
    const os::UniqueFd file = os::open_file(path + "/rest", O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string page(4096, 'x');
    while (::write(file.get(), page.data(), page.size()) > 0) {
    }
  }

  std::string path;
};

TEST_F(StorageTest, OnAFullDiskRecordsAreChangedAndRemovedAndItOpens) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: it mounts a small file system";
  const SmallDisk disk(directory + "/disk");
  const std::string path = disk.path + "/state.db";
  SessionRecord stopped = sample();
  SessionRecord removed = sample();
  removed.uid_base += 65'536;
  {
    SessionDatabase sessions(path);
    sessions.save(stopped);
    sessions.save(removed);
    disk.fill();
    stopped.state = SessionState::stopped;
    sessions.save(stopped);
    for (int i = 0; i < 500; ++i) sessions.touch(stopped.id, Time(std::chrono::seconds(i)));
  }
  disk.fill();
  {
    SessionDatabase sessions(path);
    disk.fill();
    sessions.remove(removed.id);
    removed.id = make_session_id();
    sessions.save(removed);
  }
  disk.fill();
  const auto loaded = SessionDatabase(path).load();
  EXPECT_EQ(loaded.size(), 2U);
}

TEST(SessionId, IsARandomUuidOfVersionFour) {
  const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  std::set<std::string> ids;
  for (int count = 0; count < 1000; ++count) ids.insert(make_session_id());
  EXPECT_EQ(ids.size(), 1000U);
  for (const auto& id : ids) EXPECT_TRUE(std::regex_match(id, uuid)) << id;
}

TEST_F(StorageTest, SmallOutputStaysInMemory) {
  OutputSpool spool("/nonexistent");
  spool.append("hello ");
  spool.append("world");
  EXPECT_EQ(spool.size(), 11U);
  EXPECT_EQ(spool.read(6, 100), "world");
  EXPECT_EQ(spool.read(0, 5), "hello");
  EXPECT_EQ(spool.read(11, 5), "");
  EXPECT_EQ(spool.last(), 'd');
}

TEST_F(StorageTest, LargeOutputMovesToAFileThatNobodySees) {
  OutputSpool spool(directory);
  const std::string first(OutputSpool::memory_bytes, 'a');
  EXPECT_FALSE(spool.append_blocks(first.size()));
  spool.append(first);
  EXPECT_TRUE(spool.append_blocks(1));
  spool.append("b");
  spool.append(std::string(100000, 'c'));
  EXPECT_TRUE(fs::is_empty(directory));
  EXPECT_EQ(spool.size(), first.size() + 100001);
  EXPECT_EQ(spool.read(first.size() - 1, 3), "abc");
  EXPECT_EQ(spool.read(0, spool.size()).size(), spool.size());
}

}  // namespace
}  // namespace daiv::sessions
