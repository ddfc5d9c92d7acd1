#include "sessions/command_ending.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace daiv::sessions {
namespace {

// Puts `line` on a line of its own after what is there.
void append_line(std::string& appended, char last, std::string_view line) {
  const char before = appended.empty() ? last : appended.back();
  if (before != '\0' && before != '\n') appended += '\n';
  appended += line;
}

std::string describe_memory(const CommandBounds& bounds) {
  if (bounds.memory_bytes == 0)
    return "Command killed: out of memory (the host has too little; the session has no memory "
           "limit)\n";
  return fmt::format("Command killed: out of memory (the session's memory limit is {} bytes)\n",
                     bounds.memory_bytes);
}

}  // namespace

CommandEnding plan_ending(const agent::ExecDone& done, const KeptOutput& kept,
                          const CommandBounds& bounds) {
  CommandEnding ending;
  if (done.output_bytes > kept.bytes) {
    append_line(ending.appended, kept.last,
                fmt::format("[output cut: the first {} of {} bytes are shown]\n", kept.bytes,
                            done.output_bytes));
  }
  switch (done.outcome) {
    case agent::ExecOutcome::exited:
      ending.exit_code = std::clamp(done.code, 0, 255);
      break;
    case agent::ExecOutcome::signalled:
      ending.exit_code = 128 + std::clamp(done.code, 1, 127);
      break;
    case agent::ExecOutcome::timed_out:
      ending.exit_code = timed_out_exit_code;
      ending.rest = Rest::skip;
      append_line(ending.appended, kept.last,
                  fmt::format("Command timed out after {}s", bounds.timeout.count()));
      break;
    case agent::ExecOutcome::out_of_memory:
      ending.exit_code = out_of_memory_exit_code;
      append_line(ending.appended, kept.last, describe_memory(bounds));
      break;
    case agent::ExecOutcome::cannot_start:
      ending.exit_code = cannot_start_exit_code;
      append_line(ending.appended, kept.last, done.message);
      if (!ending.appended.ends_with('\n')) ending.appended += '\n';
      break;
  }
  return ending;
}

}  // namespace daiv::sessions
