#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/protocol.hpp"
#include "agent/seed_tree.hpp"

namespace daiv::agent {

// Why a seed is refused.
class SeedError : public std::exception {
public:
  SeedError(SeedOutcome outcome, std::string message)
      : outcome_(outcome), message_(std::move(message)) {}
  [[nodiscard]] SeedOutcome outcome() const noexcept { return outcome_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

private:
  SeedOutcome outcome_;
  std::string message_;
};

// What is left of the limits of one seed, over all its archives.
struct SeedBudget {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// Members that were left out, by the reason: for the summary.
using LeftOut = std::map<std::string, std::uint64_t, std::less<>>;
std::string summarize(const LeftOut& left_out);

// The next bytes of the archive, valid until the next call; empty at its end. May throw.
using ByteSource = std::function<std::string_view()>;

// Extracts a tar (plain, gzip, bzip2, xz or zstd, told by its content) by the rules of
// seed_policy.hpp. All of the source is read; bytes that belong to no archive refuse it. Throws
// SeedError, os::Error, and what `source` throws.
LeftOut extract_archive(const ByteSource& source, SeedTree& tree, SeedBudget& budget);

}  // namespace daiv::agent
