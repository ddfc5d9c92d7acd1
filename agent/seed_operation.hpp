#pragma once

#include "agent/context.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// One seed: a confined child (seed_child.hpp) reads the frames from the connection, extracts and
// answers; the agent itself never sees the archives. Where the child is killed the answer is
// `failed`, and what it left is cleaned up.
class SeedOperation final : public Operation {
public:
  // `connection` stands before the SeedRequest's payload of `length` bytes. Throws os::Error.
  SeedOperation(Context& context, os::UniqueFd connection, std::uint32_t length,
                EndCallback on_end);
  ~SeedOperation() override;

private:
  void on_exit(ExecOutcome outcome, int code);

  Context& context_;
  os::UniqueFd connection_;
  EndCallback on_end_;
  pid_t child_ = 0;
};

}  // namespace daiv::agent
