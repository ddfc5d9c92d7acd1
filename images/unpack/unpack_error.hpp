#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace daiv::images::unpack {

// How an unpack ended; the first byte of the result record.
enum class Status : std::uint8_t {
  ok = 0,
  corrupt = 1,        // the layer's bytes are wrong, or ask for what no layer may
  no_space = 2,       // ENOSPC, EDQUOT
  too_large = 3,      // a limit of the command line was passed
  internal = 4,       // ours, or the kernel's
  needs_parents = 5,  // a hard link to a file of the layers below, which were not given
};

// Ends an unpack with this status; the text names the entry where there is one.
class UnpackError : public std::exception {
public:
  UnpackError(Status status, std::string text) : status_(status), text_(std::move(text)) {}
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  Status status_;
  std::string text_;
};

// `name` fit for a message: bytes that are not printable ASCII as \xNN, at most 200 characters.
std::string printable(std::string_view name);

}  // namespace daiv::images::unpack
