#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/unique_fd.hpp"

namespace daiv::netns {

inline os::UniqueFd open_network_namespace() {
  return os::open_file("/proc/self/ns/net", O_RDONLY);
}

// In another network namespace until the end of the scope.
class Visit {
public:
  explicit Visit(const os::UniqueFd& target) : home_(open_network_namespace()) {
    os::check(::setns(target.get(), CLONE_NEWNET), "setns", "network namespace");
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  // A process that can't come home must not go on where it does not belong.
  ~Visit() {
    if (::setns(home_.get(), CLONE_NEWNET) != 0) ::_exit(1);
  }

private:
  os::UniqueFd home_;
};

}  // namespace daiv::netns
