#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/context.hpp"
#include "os/unique_fd.hpp"

// The process in which file operations run. Agent → worker: one FsAssignment with the connection
// attached. Worker → agent: fs_answering (it goes on alone; the agent lets the connection go), then
// fs_idle.
namespace daiv::agent {

inline constexpr char fs_answering = 'a';
inline constexpr char fs_idle = 'i';

struct FsAssignment {
  std::uint32_t length = 0;  // of the request's payload, still to be read from the connection

  [[nodiscard]] std::string bytes() const { return wire::Writer().u32(length).take(); }
  static FsAssignment parse(std::string_view bytes) {
    wire::Reader reader(bytes);
    const FsAssignment assignment{reader.u32()};
    reader.finish();
    return assignment;
  }
};

// Runs in a forked child; returns never. Ends when the agent closes `control`.
[[noreturn]] void run_fs_worker(const Context& context, os::UniqueFd control) noexcept;

// For forked children that go on without execve: closes all descriptors above the standard ones but
// `kept` (which may be empty), joins the workers' cgroup, is confined. Returns what failed.
StepError become_worker(const Context& context, std::initializer_list<int> kept) noexcept;

}  // namespace daiv::agent
