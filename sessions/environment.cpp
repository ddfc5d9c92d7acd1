#include "sessions/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace daiv::sessions {
namespace {

constexpr std::pair<std::string_view, std::string_view> default_path{
    "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> fixed{{
    {"HOME", "/home/daiv-sandbox"},
    {"XDG_CACHE_HOME", "/home/daiv-sandbox/.cache"},
    {"XDG_CONFIG_HOME", "/home/daiv-sandbox/.config"},
    {"XDG_DATA_HOME", "/home/daiv-sandbox/.local/share"},
    {"XDG_STATE_HOME", "/home/daiv-sandbox/.local/state"},
}};

Environment::iterator find(Environment& environment, std::string_view name) {
  return std::ranges::find_if(environment, [&](const auto& entry) { return entry.first == name; });
}

void set(Environment& environment, std::string_view name, std::string_view value) {
  const auto entry = find(environment, name);
  if (entry == environment.end()) {
    environment.emplace_back(name, value);
  } else {
    entry->second = value;
  }
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

std::optional<std::string> find_environment_fault(const Environment& requested) {
  std::size_t total = 0;
  for (const auto& [name, value] : requested) {
    // Names are shown only where they are short and harmless; values never, they may be secrets.
    if (name.empty()) return "environment: a variable's name is empty";
    if (has_nul(name)) return "environment: a variable's name contains a NUL";
    if (name.find('=') != std::string::npos) return "environment: a variable's name contains \"=\"";
    if (has_nul(value)) return fmt::format("environment: the value of {:.64} contains a NUL", name);
    const std::size_t bytes = name.size() + value.size() + 1;
    if (bytes > max_variable_bytes) {
      return fmt::format("environment: {:.64} is longer than {} bytes", name, max_variable_bytes);
    }
    total += bytes;
  }
  if (total > max_environment_bytes) {
    return fmt::format("environment: more than {} bytes in all", max_environment_bytes);
  }
  return std::nullopt;
}

std::vector<std::string> plan_environment(const std::vector<std::string>& image,
                                          const Environment& requested) {
  Environment all;
  for (const std::string& entry : image) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || has_nul(entry)) continue;
    const std::string_view text = entry;
    set(all, text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : requested) set(all, name, value);
  if (find(all, default_path.first) == all.end()) set(all, default_path.first, default_path.second);
  for (const auto& [name, value] : fixed) set(all, name, value);
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

}  // namespace daiv::sessions
