#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/settings.hpp"

// How the text of a setting becomes its field. Each maker gives the `parse` of a SettingSpec.
namespace daiv::cli {

using Parse = std::function<bool(Settings&, const std::string&)>;

std::optional<std::uint64_t> parse_count(const std::string& text);
std::optional<double> parse_real(const std::string& text);
// true, 1, yes, on, t, y and their opposites, in any case.
std::optional<Switch> parse_switch(const std::string& text);
std::vector<std::string> parse_list(
    const std::string& text);  // by commas, blanks around items dropped

inline Parse text_of(std::string Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    settings.*field = text;
    return true;
  };
}

// An absolute path.
inline Parse path_of(std::string Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    settings.*field = text;
    return text.empty() || text.front() == '/';
  };
}

// Where routes begin; slashes at its end mean nothing, so "/sb/" is "/sb".
Parse prefix_of(std::string Settings::* field);

template <typename Number>
Parse number_of(Number Settings::* field, std::uint64_t least, std::uint64_t most) {
  return [field, least, most](Settings& settings, const std::string& text) {
    const auto value = parse_count(text);
    if (!value || *value < least || *value > most) return false;
    settings.*field = static_cast<Number>(*value);
    return true;
  };
}

inline Parse real_of(double Settings::* field, double least, double most) {
  return [field, least, most](Settings& settings, const std::string& text) {
    const auto value = parse_real(text);
    if (!value || *value < least || *value > most) return false;
    settings.*field = *value;
    return true;
  };
}

// Seconds, fractions kept as far as the field's unit goes and rounded up, since 0 often means
// "never"; at most a hundred years.
template <typename Duration>
Parse seconds_of(Duration Settings::* field, double least) {
  return [field, least](Settings& settings, const std::string& text) {
    constexpr double most = 100.0 * 365 * 24 * 3600;
    const auto value = parse_real(text);
    if (!value || *value < least || *value > most) return false;
    settings.*field = std::chrono::ceil<Duration>(std::chrono::duration<double>(*value));
    return true;
  };
}

inline Parse switch_of(Switch Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    const auto value = parse_switch(text);
    if (value) settings.*field = *value;
    return value.has_value();
  };
}

inline Parse list_of(std::vector<std::string> Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    settings.*field = parse_list(text);
    return true;
  };
}

// NAME:ADDRESS, separated by commas; an IPv6 address may be in brackets.
std::optional<std::vector<EgressHost>> parse_hosts(const std::string& text);

inline Parse hosts_of(std::vector<EgressHost> Settings::* field) {
  return [field](Settings& settings, const std::string& text) {
    auto hosts = parse_hosts(text);
    if (hosts) settings.*field = std::move(*hosts);
    return hosts.has_value();
  };
}

// An IPv4 network for the links of sessions.
Parse subnet_of(std::string Settings::* field);

template <typename Choice>
Parse choice_of(Choice Settings::* field,
                std::initializer_list<std::pair<std::string, Choice>> choices) {
  return [field, known = std::vector<std::pair<std::string, Choice>>(choices)](
             Settings& settings, const std::string& text) {
    for (const auto& [name, choice] : known) {
      if (name != text) continue;
      settings.*field = choice;
      return true;
    }
    return false;
  };
}

}  // namespace daiv::cli
