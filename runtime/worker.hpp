#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"
#include "runtime/operations.hpp"

// The broker's children that do operations: what they read and say on their channel, a SEQPACKET
// socket pair whose other end the broker's loop has.
namespace daiv::runtime {

// What is short, and done by nothing but system calls of this process. The others get a process of
// their own that ends with them.
bool suits_worker(const Request& request);

// Does one request after the other, until the channel is closed or one of them failed: what a
// failure may have left behind in the process goes with it. Throws os::Error where the broker is
// gone.
void work(const os::UniqueFd& channel, Operations& operations);

// What a worker does that gave this answer. Throws wire::DecodeError.
enum class Stay : std::uint8_t { ends, waits_for_more };
Stay stay_after(std::string_view answer);

// As a message takes them.
std::vector<int> numbers_of(std::span<const os::UniqueFd> fds);

// As one message; says what a worker does then.
Stay send_outcome(const os::UniqueFd& channel, std::uint32_t number, const Outcome& outcome);

}  // namespace daiv::runtime
