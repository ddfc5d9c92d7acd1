#include "proxy/host_glob.hpp"

#include <algorithm>
#include <charconv>

namespace daiv::proxy {
namespace {

constexpr std::string_view special = "*?[";

// "[2001:db8::1]:443", "host:443"; an IPv6 literal without brackets has no port.
std::optional<std::uint16_t> take_port(std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const bool bracketed = text[colon - 1] == ']' && text.front() == '[';
  if (!bracketed && text.find(':') != colon) return std::nullopt;
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end || port == 0) return std::nullopt;
  text.resize(colon);
  return port;
}

// Brings what is literal to the form that HostName has. A pattern is converted label by label,
// since the ones with wildcards are no names.
std::string normalise(const std::string& text) {
  if (text.find_first_of("*?") == std::string::npos) {
    if (auto name = HostName::parse(text)) return name->text();
  }
  std::string result;
  std::string_view rest = text;
  for (;;) {
    const auto dot = rest.find('.');
    const auto label = rest.substr(0, dot);
    const auto name = label.find_first_of(special) == std::string_view::npos
                          ? HostName::parse(label)
                          : std::nullopt;
    result += name ? name->text() : std::string(label);
    if (dot == std::string_view::npos) break;
    result += '.';
    rest.remove_prefix(dot + 1);
  }
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (result.size() > 1 && result.ends_with('.')) result.pop_back();
  return result;
}

// Length of the set that begins at `pattern`, 0 where its bracket is never closed (then it stands
// for itself, as in Python's fnmatch).
std::size_t set_length(std::string_view pattern) {
  std::size_t index = 1;
  if (index < pattern.size() && pattern[index] == '!') ++index;
  if (index < pattern.size() && pattern[index] == ']') ++index;
  const auto end = pattern.find(']', index);
  return end == std::string_view::npos ? 0 : end + 1;
}

// Whether `c` is in order from `first` to `last`; a char has a sign on some processors only.
bool in_range(char first, char c, char last) {
  const auto place = [](char letter) { return static_cast<unsigned char>(letter); };
  return place(first) <= place(c) && place(c) <= place(last);
}

bool in_set(std::string_view set, char c) {  // without its brackets
  const bool negated = set.starts_with('!');
  if (negated) set.remove_prefix(1);
  for (std::size_t index = 0; index < set.size(); ++index) {
    if (index + 2 < set.size() && set[index + 1] == '-') {
      if (in_range(set[index], c, set[index + 2])) return !negated;
      index += 2;
    } else if (set[index] == c) {
      return !negated;
    }
  }
  return negated;
}

// Length of the pattern's first element where it matches `c`, 0 where it does not.
std::size_t match_one(std::string_view pattern, char c) {
  if (pattern.empty()) return 0;
  if (pattern.front() == '?') return 1;
  if (pattern.front() == '[') {
    if (const auto length = set_length(pattern))
      return in_set(pattern.substr(1, length - 2), c) ? length : 0;
  }
  return pattern.front() == c ? 1 : 0;
}

// The usual two-pointer walk: only the last star is ever tried again, which keeps it from growing
// exponentially.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (const auto step = match_one(pattern.substr(p), text[t])) {
      p += step;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

HostGlob::HostGlob(std::string_view text) : text_(text) {
  std::string host(text);
  port_ = take_port(host);
  pattern_ = normalise(host);
}

bool HostGlob::matches(const HostName& host, std::uint16_t port) const {
  return (!port_ || *port_ == port) && glob_matches(pattern_, host.text());
}

bool HostGlob::names_its_hosts() const noexcept {
  const auto last = pattern_.find_last_of("*?]");
  if (last == std::string::npos) return true;
  const auto dot = pattern_.find('.', last);
  return dot != std::string::npos && dot + 1 < pattern_.size();
}

bool HostGlob::is_literal_address(std::string_view address) const noexcept {
  return pattern_ == address;
}

}  // namespace daiv::proxy
