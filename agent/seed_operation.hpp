#pragma once

#include <cstdint>
#include <string_view>

#include "agent/context.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// One seed: a confined child (seed_child.hpp) reads the frames from the connection, extracts and
// answers; the agent itself never sees the archives. Where the child is killed the answer is
// `failed`, and what it left is cleaned up.
class SeedOperation final : public Operation {
public:
  // `connection` stands before the SeedRequest's payload of `length` bytes. One at a time: it waits
  // for an earlier seed's child to end (which has answered, but may not have been reaped yet).
  // Throws os::Error.
  SeedOperation(Context& context, os::UniqueFd connection, std::uint32_t length,
                EndCallback on_end);
  ~SeedOperation() override;

private:
  void start();
  void start_if_free();
  void fail(std::string_view message);
  void on_exit(ExecOutcome outcome, int code);

  Context& context_;
  os::UniqueFd connection_;
  std::uint32_t length_;
  EndCallback on_end_;
  pid_t child_ = 0;
  std::uint64_t observer_ = 0;
};

// Removes what a seed left that ended with an earlier agent of this session. Waits for it; before
// the loop runs, so that no new seed is under way.
void clean_stale_seeds(const Context& context);

}  // namespace daiv::agent
