#include "agent/fs_utf8.hpp"

#include <cstring>

namespace daiv::agent {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t index) {
  return static_cast<std::uint8_t>(text[index]);
}

// Length and bounds of the second byte by the first one (Unicode, table 3-7, "Well-Formed UTF-8
// Byte Sequences").
struct Lead {
  std::uint8_t length;
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead classify(std::uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the first `lead.length` bytes are there and fit.
std::size_t fitting_bytes(std::string_view text, const Lead& lead) {
  std::size_t count = 1;
  while (count < lead.length && count < text.size()) {
    const std::uint8_t value = byte_at(text, count);
    const std::uint8_t low = count == 1 ? lead.second_min : std::uint8_t{0x80};
    const std::uint8_t high = count == 1 ? lead.second_max : std::uint8_t{0xBF};
    if (value < low || value > high) break;
    ++count;
  }
  return count;
}

}  // namespace

Utf8Character decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const std::uint8_t first = byte_at(text, 0);
  const Lead lead = classify(first);
  if (lead.length == 0 || fitting_bytes(text, lead) < lead.length) return {};
  if (lead.length == 1) return {first, 1};
  std::uint32_t value = first & (0xFFU >> (lead.length + 1U));
  for (std::size_t i = 1; i < lead.length; ++i) value = (value << 6U) | (byte_at(text, i) & 0x3FU);
  return {value, lead.length};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    // Eight ASCII bytes at a time: most of what is read is ASCII.
    std::uint64_t word = 0;
    while (done + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + done, sizeof word);
      if ((word & 0x8080808080808080U) != 0) break;
      done += sizeof word;
    }
    while (done < text.size() && byte_at(text, done) < 0x80) ++done;
    if (done == text.size()) break;
    const Lead lead = classify(byte_at(text, done));
    if (lead.length == 0 || fitting_bytes(text.substr(done), lead) < lead.length) break;
    done += lead.length;
  }
  return done;
}

bool is_utf8_beginning(std::string_view text) {
  if (text.empty()) return true;
  const Lead lead = classify(byte_at(text, 0));
  return lead.length > text.size() && fitting_bytes(text, lead) == text.size();
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto tail = [&](unsigned shift) {
    out.push_back(static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (code_point >> 6U)));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (code_point >> 12U)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | (code_point >> 18U)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace daiv::agent
