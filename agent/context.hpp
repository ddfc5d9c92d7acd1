#pragma once

#include <functional>
#include <memory>
#include <set>

#include "agent/cgroups.hpp"
#include "agent/confine.hpp"
#include "agent/drains.hpp"
#include "agent/loop.hpp"
#include "agent/protocol.hpp"
#include "agent/reaper.hpp"
#include "agent/shell.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// What all operations share; made by main in this order.
struct Context {
  Config config;
  Confinement confinement;
  os::UniqueFd null;
  Loop loop;
  Reaper reaper;
  Cgroups cgroups;
  ShellFinder shells;
  Drains drains;
  std::unique_ptr<char[]> buffer;  // frame_header_bytes + chunk_bytes, for one read at a time
  std::set<pid_t> workers;         // processes of the agent's own
  bool terminating = false;
  bool seeding = false;

  Context(Config config_, Confinement confinement_, os::UniqueFd null_, os::UniqueFd cgroup);
};

// One request that is being carried out.
class Operation {
public:
  // Called when it is over, perhaps more than once; the operation is destroyed at the end of the
  // loop's turn.
  using EndCallback = std::function<void()>;

  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
};

}  // namespace daiv::agent
