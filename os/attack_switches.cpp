#include "os/attack_switches.hpp"

#ifdef DAIV_ATTACK_SWITCHES

#include <cstdlib>
#include <string_view>

namespace daiv::os {
namespace {

constexpr const char* without = "DAIV_SANDBOX_ATTACK_WITHOUT";
constexpr const char* crash_at = "DAIV_SANDBOX_CRASH_AT";

std::string_view name_of(Defence defence) {
  switch (defence) {
    case Defence::sealed_agent:
      return "sealed_agent";
    case Defence::static_agent:
      return "static_agent";
    case Defence::rooted_targets:
      return "rooted_targets";
    case Defence::rooted_sources:
      return "rooted_sources";
    case Defence::dropped_privileges:
      return "dropped_privileges";
    case Defence::system_call_filter:
      return "system_call_filter";
    case Defence::closed_descriptors:
      return "closed_descriptors";
    case Defence::host_devices:
      return "host_devices";
    case Defence::verified_proc:
      return "verified_proc";
    case Defence::bound_credentials:
      return "bound_credentials";
    case Defence::root_entry:
      return "root_entry";
    case Defence::unpacker_root:
      return "unpacker_root";
    case Defence::single_meaning:
      return "single_meaning";
  }
  return {};
}

}  // namespace

bool defence_is_on(Defence defence) {
  const char* value = std::getenv(without);
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == name_of(defence)) return false;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return true;
}

std::vector<std::string> test_environment() {
  std::vector<std::string> environment;
  for (const char* name : {without, crash_at}) {
    if (const char* value = std::getenv(name))
      environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

}  // namespace daiv::os

#endif
