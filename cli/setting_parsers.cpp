#include "cli/setting_parsers.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "netns/link_plan.hpp"
#include "wire/ascii.hpp"

namespace daiv::cli {
namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_count(const std::string& text) {
  return parse_whole<std::uint64_t>(wire::trim_lines(text));
}

std::optional<double> parse_real(const std::string& text) {
  const auto value = parse_whole<double>(wire::trim_lines(text));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::optional<Switch> parse_switch(const std::string& text) {
  const std::string word = wire::lower(wire::trim_lines(text));
  constexpr std::array on{"true", "1", "yes", "on", "t", "y"};
  constexpr std::array off{"false", "0", "no", "off", "f", "n"};
  if (std::ranges::find(on, word) != on.end()) return Switch::on;
  if (std::ranges::find(off, word) != off.end()) return Switch::off;
  return std::nullopt;
}

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> items;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = wire::trim_lines(rest.substr(0, comma));
    if (!item.empty()) items.emplace_back(item);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return items;
}

std::optional<std::vector<EgressHost>> parse_hosts(const std::string& text) {
  std::vector<EgressHost> hosts;
  for (const std::string& item : parse_list(text)) {
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    EgressHost host{item.substr(0, colon), item.substr(colon + 1)};
    if (host.address.starts_with('[') && host.address.ends_with(']'))
      host.address = host.address.substr(1, host.address.size() - 2);
    in6_addr bytes{};
    if (::inet_pton(AF_INET, host.address.c_str(), &bytes) != 1 &&
        ::inet_pton(AF_INET6, host.address.c_str(), &bytes) != 1)
      return std::nullopt;
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Parse prefix_of(std::string Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    settings.*field = text.substr(0, std::max<std::size_t>(text.find_last_not_of('/') + 1, 1));
    return text.front() == '/' && text.find_first_of("?# \t\r\n") == std::string::npos;
  };
}

Parse subnet_of(std::string Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    settings.*field = text;
    return netns::parse_subnet(text).has_value();
  };
}

}  // namespace daiv::cli
