#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "cli/broker_process.hpp"
#include "cli/commands.hpp"
#include "cli/control_client.hpp"
#include "cli/control_protocol.hpp"
#include "cli/egress.hpp"
#include "cli/egress_authority.hpp"
#include "cli/host_directories.hpp"
#include "cli/privileges.hpp"
#include "cli/program_paths.hpp"
#include "os/disk_space.hpp"
#include "os/error.hpp"
#include "runtime/broker_client.hpp"

using nlohmann::json;

namespace daiv::cli {
namespace {

constexpr std::uint64_t low_disk_bytes = 2ULL << 30;
constexpr std::string_view make_room = "make room, or run daiv-sandbox prune --all";

// What was looked at, and "ok" or what is wrong and how to mend it.
struct Check {
  std::string name;
  std::string result;
};
using Checks = std::vector<Check>;

template <typename Test>
void add(Checks& checks, std::string name, Test test) {
  std::string result = "ok";
  try {
    result = test();
  } catch (const std::exception& error) {  // the check's result
    result = error.what();
  }
  checks.push_back({std::move(name), std::move(result)});
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text.empty() ? "ok" : text;
}

std::string check_settings(const LoadedSettings& loaded) {
  std::vector<std::string> faults = loaded.errors;
  for (auto& conflict : find_conflicts(loaded.settings)) faults.push_back(std::move(conflict));
  return join(faults);
}

// What creations would be refused for, and a warning before.
std::string check_disk(const Settings& settings) {
  std::filesystem::path place = settings.state_dir;
  while (!std::filesystem::exists(place)) place = place.parent_path();
  const std::string shortage = os::find_disk_shortage(place, settings.min_free_disk_bytes);
  if (!shortage.empty()) return fmt::format("{}: {}, {}", place.string(), shortage, make_room);
  struct statvfs status{};
  os::check(::statvfs(place.c_str(), &status), "statvfs", place.string());
  const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
  if (free >= low_disk_bytes) return "ok";
  return fmt::format("only {} MiB are free at {}: {}", free >> 20, place.string(), make_room);
}

std::string check_ca(const Settings& settings) {
  if (settings.egress_ca_cert_file.empty()) return "ok";
  for (const auto& path : {settings.egress_ca_cert_file, settings.egress_ca_key_file}) {
    if (::access(path.c_str(), R_OK) != 0)
      return fmt::format("can't read {}: check the path and its rights", path);
  }
  return join(find_authority_remarks(*load_authority(settings, read_authority(settings))));
}

std::string check_egress(const Settings& settings) {
  return settings.egress_ca_cert_file.empty() ? "ok" : join(find_egress_conflicts(settings));
}

void add_report(Checks& checks, const std::vector<std::string>& pairs) {
  for (std::size_t index = 0; index + 1 < pairs.size(); index += 2)
    checks.push_back({pairs[index], pairs[index + 1]});
}

// A broker of our own, for as long as the question takes.
std::vector<std::string> probe_with_own_broker(const Settings& settings) {
  const User user = find_user(settings.user);
  const ProgramPaths programs = find_programs();
  make_directories(settings, user);
  BrokerProcess process =
      start_broker(plan_broker_arguments(settings, user, programs), programs.broker);
  runtime::BrokerClient broker(std::move(process.socket));
  const runtime::Reply reply = broker.call(runtime::ProbeHost{});
  if (const auto* report = std::get_if<runtime::HostReport>(&reply.answer)) return report->checks;
  const auto* failed = std::get_if<runtime::Failed>(&reply.answer);
  throw ControlFailure(exit_failed,
                       failed != nullptr ? failed->message : "broker: answer of another kind");
}

void add_host_checks(Checks& checks, const Settings& settings) {
  try {
    if (const auto daemon = connect_to_daemon(settings.runtime_dir)) {
      checks.push_back({"daemon", "ok"});
      add_report(checks,
                 ask_daemon(*daemon, {{"command", "probe"}}).get<std::vector<std::string>>());
      return;
    }
    checks.push_back(
        {"daemon", "not running: systemctl start daiv-sandbox, or daiv-sandbox serve"});
    if (::geteuid() != 0) {
      checks.push_back({"host", "not looked at: run doctor as root"});
      return;
    }
    add_report(checks, probe_with_own_broker(settings));
  } catch (const std::exception& error) {  // the check's result
    checks.push_back({"host", error.what()});
  }
}

}  // namespace

int doctor(const LoadedSettings& loaded, Form form) {
  Checks checks;
  add(checks, "settings", [&] { return check_settings(loaded); });
  add(checks, "user", [&] {
    find_user(loaded.settings.user);
    return std::string("ok");
  });
  add(checks, "programs", [] {
    find_programs();
    return std::string("ok");
  });
  add(checks, "disk", [&] { return check_disk(loaded.settings); });
  add(checks, "egress CA", [&] { return check_ca(loaded.settings); });
  add(checks, "egress network", [&] { return check_egress(loaded.settings); });
  add_host_checks(checks, loaded.settings);
  bool well = true;
  json listing = json::array();
  for (const auto& [name, result] : checks) {
    const bool ok = result == "ok";
    well = well && ok;
    listing.push_back({{"name", name}, {"ok", ok}, {"result", result}});
    if (form == Form::text)
      fmt::print("{:4}  {:24}  {}\n", ok ? "ok" : "BAD", name, ok ? "" : result);
  }
  if (form == Form::json)
    fmt::print("{}\n", listing.dump(2, ' ', false, json::error_handler_t::replace));
  return well ? exit_ok : exit_failed;
}

}  // namespace daiv::cli
