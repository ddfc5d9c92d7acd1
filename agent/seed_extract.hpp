#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/seed_tree.hpp"
#include "agent/seed_unpack.hpp"

namespace daiv::agent {

// What is left of the limits of one seed, over all its archives.
struct SeedBudget {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// Members that were left out, by the reason: for the summary.
using LeftOut = std::map<std::string, std::uint64_t, std::less<>>;
std::string summarize(const LeftOut& left_out);

// Extracts a tar (plain, gzip, bzip2, xz or zstd, told by its content) by the rules of
// seed_policy.hpp. All of the source is read; bytes that belong to no archive refuse it, except
// zeros behind its end mark. Throws SeedError, os::Error, and what `source` throws.
LeftOut extract_archive(const ByteSource& source, SeedTree& tree, SeedBudget& budget);

}  // namespace daiv::agent
