#include <algorithm>
#include <string>

#include "agent/seed_policy.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace daiv;

// What is fine is relative and has no component that leads anywhere else; tidying it again changes
// nothing.
void check_name(std::string_view name) {
  const auto tidy = agent::tidy_name(name);
  fuzz::require(
      agent::refusal(tidy.verdict, name).empty() ==
      (tidy.verdict != agent::NameVerdict::absolute && tidy.verdict != agent::NameVerdict::parent));
  if (tidy.verdict != agent::NameVerdict::fine) return;
  const std::string framed = "/" + tidy.path + "/";
  fuzz::require(framed.find("//") == std::string::npos);
  fuzz::require(framed.find("/./") == std::string::npos);
  fuzz::require(framed.find("/../") == std::string::npos);
  fuzz::require(agent::tidy_name(tidy.path).path == tidy.path);
}

// The same question asked of the whole path: a link that stays inside never climbs above the root.
void check_link(std::string_view target) {
  if (!agent::link_stays_inside("one/two/link", target)) return;
  fuzz::require(!target.empty() && target.front() != '/');
  int depth = 2;
  for (std::size_t at = 0; at <= target.size();) {
    const auto slash = std::min(target.find('/', at), target.size());
    const auto component = target.substr(at, slash - at);
    if (component == "..")
      --depth;
    else if (!component.empty() && component != ".")
      ++depth;
    fuzz::require(depth >= 0);
    at = slash + 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_name(text);
  check_link(text);
  return 0;
}
