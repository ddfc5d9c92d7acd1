#include "runtime/attack_switches.hpp"

#ifdef DAIV_ATTACK_SWITCHES

#include <cstdlib>
#include <string_view>

namespace daiv::runtime {
namespace {

std::string_view name_of(Defence defence) {
  switch (defence) {
    case Defence::sealed_agent:
      return "sealed_agent";
    case Defence::rooted_targets:
      return "rooted_targets";
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
  }
  return {};
}

}  // namespace

bool defence_is_on(Defence defence) {
  const char* value = std::getenv("DAIV_SANDBOX_ATTACK_WITHOUT");
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == name_of(defence)) return false;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return true;
}

}  // namespace daiv::runtime

#endif
