#include "cli/broker_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cli/broker_process.hpp"
#include "cli/host_directories.hpp"
#include "cli/privileges.hpp"
#include "cli/program_paths.hpp"
#include "os/service_manager.hpp"

namespace daiv::cli {
namespace {

// The front says what is wrong with settings that are its own.
bool refuse(const LoadedSettings& loaded, const std::vector<os::PassedSocket>& sockets) {
  std::vector<std::string> reasons = loaded.errors;
  if (::geteuid() != 0) reasons.emplace_back("broker must be started by root");
  if (sockets.size() != 1)
    reasons.push_back(fmt::format(
        "broker serves the one socket that a service manager passes (LISTEN_FDS), not {}: start "
        "daiv-sandbox-broker.socket",
        sockets.size()));
  for (const auto& reason : reasons) fmt::print(stderr, "daiv-sandbox: {}\n", reason);
  return !reasons.empty();
}

}  // namespace

int run_broker(const LoadedSettings& loaded) {
  std::vector<os::PassedSocket> sockets = os::take_passed_sockets();
  if (refuse(loaded, sockets)) return 1;
  const User front = find_user(loaded.settings.user);
  const ProgramPaths programs = find_programs();
  make_directories(loaded.settings, front);
  become_broker(std::move(sockets.front().socket),
                plan_broker_arguments(loaded.settings, front, programs, BrokerSocket::listening),
                programs.broker);
}

}  // namespace daiv::cli
