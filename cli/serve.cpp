#include "cli/serve.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/broker_process.hpp"
#include "cli/build_config.hpp"
#include "cli/egress.hpp"
#include "cli/egress_authority.hpp"
#include "cli/error_reporting.hpp"
#include "cli/front.hpp"
#include "cli/host_directories.hpp"
#include "cli/logging.hpp"
#include "cli/passed_listeners.hpp"
#include "cli/privileges.hpp"
#include "cli/program_paths.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/memfd.hpp"
#include "os/service_manager.hpp"

namespace daiv::cli {
namespace {

constexpr std::size_t max_auth_file_bytes = 1U << 20;
constexpr std::size_t max_credential_bytes = 1U << 20;

bool refuse(const LoadedSettings& loaded, const std::vector<os::PassedSocket>& passed) {
  std::vector<std::string> reasons = loaded.errors;
  for (auto& conflict : find_conflicts(loaded.settings)) reasons.push_back(std::move(conflict));
  if (loaded.errors.empty() && !loaded.settings.egress_ca_cert_file.empty())
    for (auto& conflict : find_egress_conflicts(loaded.settings))
      reasons.push_back(std::move(conflict));
  const bool own_broker = loaded.settings.broker_socket.empty();
  if (own_broker && ::geteuid() != 0)
    reasons.emplace_back(
        "serve must be started by root: it gives up its rights once the broker runs");
  if (!own_broker && ::geteuid() == 0)
    reasons.push_back(
        fmt::format("DAIV_SANDBOX_BROKER_SOCKET is set: serve must be started by the user {}, "
                    "since the broker is a service of its own",
                    loaded.settings.user));
  for (auto& conflict : find_listener_conflicts(loaded, passed))
    reasons.push_back(std::move(conflict));
  for (const auto& reason : reasons) fmt::print(stderr, "daiv-sandbox: {}\n", reason);
  return !reasons.empty();
}

// Root's registry credentials, copied unread into a sealed memfd, since the front may not open the
// file. Empty where there is none.
os::UniqueFd copy_registry_auth(const std::string& configured) {
  std::string path = configured;
  if (path.empty()) {
    const passwd* root = ::getpwuid(0);
    path = fmt::format("{}/.docker/config.json", root != nullptr ? root->pw_dir : "/root");
  }
  try {
    return os::make_sealed_memfd("registry-auth", os::read_file(path, max_auth_file_bytes));
  } catch (const os::Error& error) {
    if (!configured.empty() || (error.error_number() != ENOENT && error.error_number() != ENOTDIR))
      throw;
    return {};
  }
}

// A file of systemd's credentials (systemd.exec(5), LoadCredential=) is root's, and stays as it is
// while the service runs: it is copied like the above. Empty for any other path, which the front
// reads itself.
os::UniqueFd copy_credential(const std::string& path) {
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  if (directory == nullptr || !path.starts_with(fmt::format("{}/", directory))) return {};
  return os::make_sealed_memfd("credential", os::read_file(path, max_credential_bytes));
}

// The files and sockets that are opened in the same way with and without root's rights.
void fill_shared_parts(const Settings& settings, FrontParts& parts) {
  parts.api.tls_certificate = copy_credential(settings.tls_cert_file);
  parts.api.tls_key = copy_credential(settings.tls_key_file);
  parts.control_listener = listen_for_control(settings, parts.user);
  parts.api.listener = listen_for_api(settings, parts.user);
  // The key is root's alone where the operator wants it so; parsed it is by the front.
  if (!settings.egress_ca_cert_file.empty()) parts.egress_authority = read_authority(settings);
}

FrontParts prepare_as_root(const Settings& settings) {
  FrontParts parts;
  parts.user = find_user(settings.user);
  const ProgramPaths programs = find_programs();
  make_directories(settings, parts.user);
  parts.locks = lock_directories(settings);
  parts.registry_auth = copy_registry_auth(settings.registry_auth_file);
  fill_shared_parts(settings, parts);
  parts.broker =
      start_broker(plan_broker_arguments(settings, parts.user, programs), programs.broker);
  raise_descriptor_limit();  // of this process, not of sandboxes
  become_user(parts.user);
  return parts;
}

// The broker has root's part as a unit of its own; what only root may read comes as a credential.
FrontParts prepare_as_user(const Settings& settings) {
  FrontParts parts;
  parts.user = find_user(settings.user);
  if (::geteuid() != parts.user.uid)
    throw std::runtime_error(
        fmt::format("serve must be started by the user {} (DAIV_SANDBOX_USER)", settings.user));
  stay_user(parts.user);
  parts.broker = connect_to_broker(settings.broker_socket);  // it makes the directories
  parts.locks = lock_directories(settings);
  if (!settings.registry_auth_file.empty())
    parts.registry_auth = copy_registry_auth(settings.registry_auth_file);
  fill_shared_parts(settings, parts);
  raise_descriptor_limit();
  return parts;
}

}  // namespace

int serve(const LoadedSettings& loaded) {
  std::vector<os::PassedSocket> passed = os::take_passed_sockets();
  if (refuse(loaded, passed)) return 1;
  ::umask(077);
  set_up_logging(loaded.settings.log_level, loaded.settings.log_format);
  for (const auto& warning : loaded.warnings) spdlog::warn("{}", warning);
  for (const auto& remark : find_remarks(loaded)) spdlog::warn("{}", remark);
  std::unique_ptr<ErrorReporting> reporting;  // outlives what it has to tell of
  try {
    FrontParts parts = loaded.settings.broker_socket.empty() ? prepare_as_root(loaded.settings)
                                                             : prepare_as_user(loaded.settings);
    parts.api.passed = std::move(passed);
    reporting = ErrorReporting::start(loaded.settings, version);
    parts.api.observer = reporting.get();
    return run_front(loaded.settings, std::move(parts));
  } catch (const std::exception& error) {  // the end of the program's work
    spdlog::critical("event=serve_failed error=\"{}\"", error.what());
    return 1;
  }
}

}  // namespace daiv::cli
