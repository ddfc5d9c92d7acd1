#include "agent/fs_path.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "agent/fs_unprintable.hpp"
#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

constexpr std::string_view root_name = "workspace";

// The parts of a path without empty ones and ".".
std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.push_back(part);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

// Exactly two leading slashes name another root (POSIX.1-2017, 4.13), as Python's pathlib has it
// too.
bool has_other_root(std::string_view path) {
  return path.starts_with("//") && !path.starts_with("///");
}

FsError invalid_path(std::string_view what, std::string_view path) {
  return {FsErrorCode::invalid_path, std::string(what) + python_repr(path)};
}

bool is_printable(std::uint32_t code_point) {
  const auto after = std::upper_bound(
      unprintable_ranges.begin(), unprintable_ranges.end(), code_point,
      [](std::uint32_t value, const CodePointRange& r) { return value < r.first; });
  return after == unprintable_ranges.begin() || code_point > (after - 1)->last;
}

void append_hex(std::string& out, char kind, std::uint32_t value, int digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += {'\\', kind};
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += hex[(value >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

void append_repr(std::string& out, std::uint32_t c, char quote) {
  if (c == static_cast<unsigned char>(quote) || c == '\\') {
    out += {'\\', static_cast<char>(c)};
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (is_printable(c)) {
    append_utf8(out, c);
  } else if (c < 0x100) {
    append_hex(out, 'x', c, 2);
  } else if (c < 0x10000) {
    append_hex(out, 'u', c, 4);
  } else {
    append_hex(out, 'U', c, 8);
  }
}

}  // namespace

std::string python_repr(std::string_view text) {
  const bool double_quotes = text.contains('\'') && !text.contains('"');
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const Utf8Character character = decode_utf8(text);
    if (character.length == 0) {
      append_hex(out, 'x', static_cast<unsigned char>(text.front()), 2);
    } else {
      append_repr(out, character.code_point, quote);
    }
    text.remove_prefix(std::max<std::size_t>(character.length, 1));
  }
  out += quote;
  return out;
}

FsTarget fs_target(FsOperation operation) {
  switch (operation) {
    case FsOperation::ls:
    case FsOperation::grep:
    case FsOperation::glob:
      return FsTarget::directory;
    case FsOperation::read:
    case FsOperation::write:
    case FsOperation::edit:
    case FsOperation::remove:
      break;
  }
  return FsTarget::file;
}

std::optional<FsError> check_fs_path(std::string_view path, FsTarget target) {
  constexpr std::string_view forbidden("\0\n\r", 3);
  if (path.find_first_of(forbidden) != std::string_view::npos) {
    return invalid_path("path must not contain NUL or newline characters: ", path);
  }
  if (!path.starts_with('/')) return invalid_path("path must be absolute, got: ", path);
  const std::vector<std::string_view> parts = split_path(path);
  if (std::ranges::find(parts, "..") != parts.end()) {
    return invalid_path("path must not contain '..' segments: ", path);
  }
  if (has_other_root(path) || parts.empty() || parts.front() != root_name) {
    return invalid_path("path must be under one of ('/workspace',), got: ", path);
  }
  if (target == FsTarget::file && parts.size() == 1) {
    return invalid_path("path must not equal a reserved root: ", path);
  }
  return std::nullopt;
}

}  // namespace daiv::agent
