#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>

#include "agent/fs_operations.hpp"

namespace daiv::agent {

// A temporary directory that stands for "/", with /workspace/repo in it, seen by an ordinary user:
// a test that root runs takes another effective user for its duration (seteuid(2) drops the
// effective capabilities too).
class FsTest : public ::testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  // Where a path of the API is on the host.
  [[nodiscard]] std::string host(std::string_view path) const { return base_ + std::string(path); }
  // A path below /workspace/repo.
  [[nodiscard]] static std::string repo(std::string_view name) {
    return "/workspace/repo/" + std::string(name);
  }

  void make_file(std::string_view path, std::string_view content, mode_t mode = 0644) const;
  void make_directory(std::string_view path, mode_t mode = 0755) const;
  void make_link(std::string_view path, const std::string& target) const;
  [[nodiscard]] std::string content(std::string_view path) const;
  [[nodiscard]] struct stat status(std::string_view path) const;  // of the link itself
  [[nodiscard]] bool exists(std::string_view path) const;

  [[nodiscard]] const FsRoot& root() const { return *root_; }

private:
  std::string base_;
  std::unique_ptr<FsRoot> root_;
  bool was_root_ = false;
};

}  // namespace daiv::agent
