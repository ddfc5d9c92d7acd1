#include "agent/fs_path.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace daiv::agent {
namespace {

TEST(FsPath, TakesWhatLiesBelowTheWorkspace) {
  for (const char* path :
       {"/workspace/a", "/workspace/repo//./d//f", "/workspace/a/", "///workspace/x",
        "/workspace/..x", "/workspace/a..b", "/workspace/...", "/workspace/\xC3\xA9\t"}) {
    EXPECT_EQ(check_fs_path(path, FsTarget::file), std::nullopt) << path;
  }
}

TEST(FsPath, TakesTheRootAsADirectoryOnly) {
  for (const char* path : {"/workspace", "/workspace/", "/workspace/.", "/./workspace//"}) {
    EXPECT_EQ(check_fs_path(path, FsTarget::directory), std::nullopt) << path;
    const auto error = check_fs_path(path, FsTarget::file);
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->message, "path must not equal a reserved root: '" + std::string(path) + "'");
  }
}

TEST(FsPath, RefusesTheRestWithItsReason) {
  struct Row {
    std::string path;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"", "path must be absolute, got: ''"},
      {"workspace/a", "path must be absolute, got: 'workspace/a'"},
      {"/", "path must be under one of ('/workspace',), got: '/'"},
      {"/workspaces", "path must be under one of ('/workspace',), got: '/workspaces'"},
      {"//workspace/x", "path must be under one of ('/workspace',), got: '//workspace/x'"},
      {"/etc/it's", "path must be under one of ('/workspace',), got: \"/etc/it's\""},
      {"/workspace/a/..", "path must not contain '..' segments: '/workspace/a/..'"},
      {"/etc/../workspace/a", "path must not contain '..' segments: '/etc/../workspace/a'"},
      {std::string("/workspace/a\0b", 14),
       "path must not contain NUL or newline characters: '/workspace/a\\x00b'"},
      {"/workspace/a\n", "path must not contain NUL or newline characters: '/workspace/a\\n'"},
      {"\r", "path must not contain NUL or newline characters: '\\r'"},
  };
  for (const Row& row : rows) {
    for (const FsTarget target : {FsTarget::file, FsTarget::directory}) {
      const auto error = check_fs_path(row.path, target);
      ASSERT_TRUE(error) << row.path;
      EXPECT_EQ(error->code, FsErrorCode::invalid_path);
      EXPECT_EQ(error->message, row.message);
    }
  }
}

TEST(FsPath, QuotesAsPythonDoes) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a b", "'a b'"},
      {"it's", "\"it's\""},
      {"\"both\"'s", "'\"both\"\\'s'"},
      {"\\", "'\\\\'"},
      {"\t\x7F\x1B", "'\\t\\x7f\\x1b'"},
      {"\xC3\xA9\xE2\x98\x83\xF0\x9F\x98\x80", "'\xC3\xA9\xE2\x98\x83\xF0\x9F\x98\x80'"},
      {"\xC2\xA0\xC2\x85\xE2\x80\xA8", "'\\xa0\\x85\\u2028'"},
      {"\xF3\xA0\x80\x81", "'\\U000e0001'"},
      {"\xFF", "'\\xff'"},
  };
  for (const auto& [text, quoted] : rows) EXPECT_EQ(python_repr(text), quoted);
}

}  // namespace
}  // namespace daiv::agent
