#pragma once

#include <cstdint>

#include "agent/context.hpp"
#include "os/unique_fd.hpp"

// The processes that handle archives: forked by the agent, confined like a command, memory-limited.
namespace daiv::agent {

// Reads the SeedRequest (`length` bytes) and the frames that follow from `connection`, extracts,
// answers there with one SeedDone (or Failed), and exits with 0. Exits with something else, having
// answered nothing, where it cannot.
[[noreturn]] void run_seed_child(const Context& context, os::UniqueFd connection,
                                 std::uint32_t length) noexcept;

// Removes the staging directories that a killed seed left under /workspace.
[[noreturn]] void run_seed_cleaning(const Context& context) noexcept;

// Whether /workspace has such a directory. False where it cannot be read.
bool has_stale_staging() noexcept;

}  // namespace daiv::agent
