#include "agent/seed_child.hpp"

#include <unistd.h>
namespace daiv::agent {
void run_seed_child(const Context&, os::UniqueFd, std::uint32_t) noexcept { ::_exit(1); }
void run_seed_cleaning(const Context&) noexcept { ::_exit(0); }
}  // namespace daiv::agent
