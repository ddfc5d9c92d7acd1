#pragma once

#include <cstdint>
#include <string>

namespace daiv::os {

// Whether the filesystem of `path` has less than `floor` bytes free, or hardly a file (inode) left,
// in words for a client; empty where it has enough, and always where `floor` is 0. Throws Error.
std::string find_disk_shortage(const std::string& path, std::uint64_t floor);

}  // namespace daiv::os
