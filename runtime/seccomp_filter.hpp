#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// The system calls that a sandbox's commands may make: an allowlist in effect like the default
// profile of containers, less what that one leaves to capabilities (seccomp(2), Docker: seccomp
// security profiles).
namespace daiv::runtime {

enum class Verdict : std::uint8_t { allow, not_permitted, not_implemented };

// One rule by name. The names of one verdict without conditions on arguments; the conditional ones
// (clone, socket, personality) are in the source beside these.
std::span<const std::string_view> allowed_calls();
std::span<const std::string_view> refused_calls();

// The filter as an array of struct sock_filter, for this machine's architecture and its 32-bit one.
// x32 calls, calls that are newer than the list and io_uring answer ENOSYS, so that programs fall
// back; what could be used by privileged processes alone answers EPERM. Throws os::Error.
std::string build_seccomp_filter();

}  // namespace daiv::runtime
