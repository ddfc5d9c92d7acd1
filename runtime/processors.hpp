#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/broker_protocol.hpp"

// Which processors a session with a limit runs on. All but the last function is pure.
namespace daiv::runtime {

// How many processors a limit amounts to: a fraction counts as a whole one. 0 where there is no
// limit, or none that is below what the host has.
std::size_t count_processors(const Limits& limits, std::size_t available);

// Which of the `available` processors a session runs on: `count` of them, so that the sessions of
// successive uid ranges are spread over all. Empty where count is 0.
std::vector<unsigned> choose_processors(std::span<const unsigned> available, std::size_t count,
                                        std::size_t range_index);

// Lists of processors as the kernel has them, "0-2,7" (cpuset(7), List format). Ascending; nothing
// where the text is no such list.
std::optional<std::vector<unsigned>> parse_processor_list(std::string_view text);
std::string format_processor_list(std::span<const unsigned> processors);

// What this process may use, of which a host keeps some from its services (sched_getaffinity(2)).
// Throws os::Error.
std::vector<unsigned> read_processors();

}  // namespace daiv::runtime
