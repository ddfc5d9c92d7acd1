#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/protocol.hpp"

namespace daiv::sessions {

inline constexpr int timed_out_exit_code = 124;
inline constexpr int cannot_start_exit_code = 127;
inline constexpr int out_of_memory_exit_code = 137;  // 128 + SIGKILL

enum class Rest { run, skip };  // what becomes of the request's remaining commands

// What a client sees of how a command ended.
struct CommandEnding {
  int exit_code = 0;
  std::string appended;  // what follows the command's own output; may be empty
  Rest rest = Rest::run;
};

// What was kept of the command's output.
struct KeptOutput {
  std::uint64_t bytes = 0;
  char last = '\0';
};

// What the command was held to; 0 means none.
struct CommandBounds {
  std::chrono::seconds timeout{0};
  std::uint64_t memory_bytes = 0;
};

// Maps the agent's word on a command: an exit status as it is, a signal n as 128 + n as shells do,
// a timeout as 124 with the time said after what was printed so far, a command that can't start as
// 127 with the reason, one that the kernel ended for want of memory as 137 with the limit named.
// Where output was cut, a line says so, with the whole size. The agent's numbers are untrusted: out
// of range they are clamped.
CommandEnding plan_ending(const agent::ExecDone& done, const KeptOutput& kept,
                          const CommandBounds& bounds);

}  // namespace daiv::sessions
