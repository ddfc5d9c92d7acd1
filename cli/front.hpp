#pragma once

#include <optional>
#include <vector>

#include "api/extensions.hpp"
#include "cli/broker_process.hpp"
#include "cli/host_directories.hpp"
#include "cli/privileges.hpp"
#include "cli/settings.hpp"
#include "os/service_manager.hpp"
#include "os/unique_fd.hpp"
#include "proxy/certificate_authority.hpp"

namespace daiv::cli {

// What the API gets from the time when this process was root; each may be empty.
struct ApiParts {
  std::vector<os::PassedSocket> passed;  // in place of the TCP listener; empty: none
  os::UniqueFd listener;                 // of DAIV_SANDBOX_UNIX_SOCKET
  os::UniqueFd tls_certificate;          // memfds, where the files are root's credentials
  os::UniqueFd tls_key;
  api::RequestObserver* observer = nullptr;  // outlives the front
};

// What the front gets from the time when it was root.
struct FrontParts {
  User user;
  BrokerProcess broker;
  DirectoryLocks locks;
  os::UniqueFd registry_auth;  // memfd; empty: no credentials
  os::UniqueFd control_listener;
  ApiParts api;
  std::optional<proxy::PemPair> egress_authority;  // empty: no egress
};

// Wires images, sessions, API and control socket together and serves until SIGTERM, SIGINT or the
// broker's end. Returns the exit code.
int run_front(const Settings& settings, FrontParts parts);

}  // namespace daiv::cli
