#include "api/utf8.hpp"

#include <algorithm>

namespace daiv::api {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

unsigned char byte_at(std::string_view bytes, std::size_t index) {
  return static_cast<unsigned char>(bytes[index]);
}

// The range that the second byte must lie in, after this first one: excludes overlong forms,
// surrogates and what is above U+10FFFF.
struct Lead {
  std::size_t length;  // of the character; 0 where no character starts with this byte
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xbf;
};

Lead lead_of(unsigned char first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

}  // namespace

Utf8Step scan_utf8(std::string_view bytes) noexcept {
  const Lead lead = lead_of(byte_at(bytes, 0));
  if (lead.length == 0) return {Utf8Kind::ill_formed, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::cut, i};
    const unsigned char byte = byte_at(bytes, i);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xbf;
    if (byte < low || byte > high) return {Utf8Kind::ill_formed, i};
  }
  return {Utf8Kind::character, lead.length};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (byte_at(bytes, at) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = scan_utf8(bytes.substr(at));
    if (step.kind != Utf8Kind::character) return at;
    at += step.length;
  }
  return std::nullopt;
}

void append_utf8(std::string& out, char32_t character) {
  const auto tail = [&out](std::uint32_t bits) {
    out += static_cast<char>(0x80U | (bits & 0x3fU));
  };
  const auto code = static_cast<std::uint32_t>(character);
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0U | (code >> 6U));
    tail(code);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0U | (code >> 12U));
    tail(code >> 6U);
    tail(code);
  } else {
    out += static_cast<char>(0xf0U | (code >> 18U));
    tail(code >> 12U);
    tail(code >> 6U);
    tail(code);
  }
}

std::size_t count_characters(std::string_view text) noexcept {
  const auto starts = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  });
  return static_cast<std::size_t>(starts);
}

void Utf8Replacer::append(std::string& out, std::string_view bytes) {
  std::string joined;
  if (!waiting_.empty()) {
    joined = std::move(waiting_);
    waiting_.clear();
    joined += bytes;
    bytes = joined;
  }
  std::size_t clean = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (byte_at(bytes, at) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = scan_utf8(bytes.substr(at));
    if (step.kind == Utf8Kind::cut) break;
    if (step.kind == Utf8Kind::ill_formed) {
      out += bytes.substr(clean, at - clean);
      out += replacement;
      clean = at + step.length;
    }
    at += step.length;
  }
  out += bytes.substr(clean, at - clean);
  waiting_ = bytes.substr(at);
}

void Utf8Replacer::finish(std::string& out) {
  if (!waiting_.empty()) out += replacement;
  waiting_.clear();
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  Utf8Replacer replacer;
  replacer.append(out, bytes);
  replacer.finish(out);
  return out;
}

}  // namespace daiv::api
