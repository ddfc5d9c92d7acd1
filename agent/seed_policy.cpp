#include "agent/seed_policy.hpp"

#include <fmt/format.h>

#include <climits>
#include <cstdint>
#include <vector>

namespace daiv::agent {
namespace {

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto component = path.substr(0, slash);
    if (!component.empty() && component != ".") components.push_back(component);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return components;
}

// The length of the UTF-8 sequence at the start of `text`, 0 where there is none (RFC 3629 §4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t index) -> unsigned {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  const auto continues = [&](std::size_t index, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(index) >= low && byte(index) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

void append_ascii(std::string& out, unsigned char byte, char quote) {
  if (byte == '\\' || byte == static_cast<unsigned char>(quote))
    out.append({'\\', static_cast<char>(byte)});
  else if (byte == '\n')
    out += "\\n";
  else if (byte == '\r')
    out += "\\r";
  else if (byte == '\t')
    out += "\\t";
  else if (byte < 0x20 || byte == 0x7f)
    out += fmt::format("\\x{:02x}", byte);
  else
    out.push_back(static_cast<char>(byte));
}

}  // namespace

TidyName tidy_name(std::string_view name) {
  if (name.starts_with('/')) return {NameVerdict::absolute, {}};
  TidyName tidy;
  bool too_long = false;
  for (const auto component : components_of(name)) {
    if (component == "..") return {NameVerdict::parent, {}};
    too_long = too_long || component.size() > NAME_MAX;
    if (!tidy.path.empty()) tidy.path.push_back('/');
    tidy.path.append(component);
  }
  if (tidy.path.empty()) return {NameVerdict::root, {}};
  if (too_long || tidy.path.size() >= PATH_MAX) return {NameVerdict::too_long, {}};
  return tidy;
}

std::string refusal(NameVerdict verdict, std::string_view name) {
  // Python's tarfile takes the slashes from the end of a directory's name before anybody sees it.
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  switch (verdict) {
    case NameVerdict::absolute:
      return "Archive contains an absolute path: " + quote_as_python(name);
    case NameVerdict::parent:
      return "Archive contains a parent-directory traversal path: " + quote_as_python(name);
    case NameVerdict::fine:
    case NameVerdict::root:
    case NameVerdict::too_long:
      break;
  }
  return {};
}

bool link_stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.starts_with('/')) return false;
  std::size_t depth = components_of(path).size() - 1;
  for (const auto component : components_of(target)) {
    if (component != "..") {
      ++depth;
    } else if (depth-- == 0) {
      return false;
    }
  }
  return true;
}

mode_t file_mode(mode_t mode) {
  const mode_t wanted = (mode & 0111) != 0 ? 0755 : 0644;
  return (mode & 0777) | wanted;
}

mode_t directory_mode(mode_t mode) { return (mode & 0777) | 0755; }

std::string quote_as_python(std::string_view name) {
  const bool has_single = name.find('\'') != std::string_view::npos;
  const char quote = has_single && name.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  while (!name.empty()) {
    const std::size_t length = sequence_length(name);
    const auto byte = static_cast<unsigned char>(name.front());
    if (length == 1) {
      append_ascii(out, byte, quote);
    } else if (length == 0) {
      out += fmt::format("\\udc{:02x}", byte);  // os.fsdecode, surrogateescape (PEP 383)
    } else if (length == 2 && byte == 0xc2 && static_cast<unsigned char>(name[1]) < 0xa1) {
      out +=
          fmt::format("\\x{:02x}", static_cast<unsigned char>(name[1]));  // C1 controls and U+00A0
    } else {
      out.append(name.substr(0, length));
    }
    name.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back(quote);
  return out;
}

}  // namespace daiv::agent
