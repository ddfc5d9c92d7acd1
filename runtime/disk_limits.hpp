#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

// What sessions may take of the disk that the state lies on.
namespace daiv::runtime {

enum class WritableLayer : std::uint8_t { fresh, kept };

// Bounds the writable layer of the session in `directory` (with its `upper` and `work`) to `bytes`
// and to a file for each 4 KiB of them by project quota; the project is the first of the session's
// own uids, so no other's on this host. A layer that was made without a bound keeps going without.
// The refusal is `unsupported` where the filesystem enforces none. Throws os::Error.
std::expected<void, Failed> bound_writable_layer(const os::UniqueFd& directory,
                                                 std::uint32_t uid_base, std::uint64_t bytes,
                                                 WritableLayer layer);

// "ok", or how to make the filesystem of `path` enforce a bound.
std::string check_disk_bound(const std::string& path);

}  // namespace daiv::runtime
