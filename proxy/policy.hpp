#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/host_glob.hpp"
#include "proxy/host_name.hpp"

// What a session may reach, and with which credential. Pure: every decision is a value that says
// why.
namespace daiv::proxy {

enum class Default { deny, allow };

enum class Intercept {
  all,           // every TLS connection is opened
  credentialed,  // only those of hosts whose first rule injects or limits methods
};

struct Rule {
  HostGlob host;
  std::vector<std::string> methods;   // upper-case; empty: all
  std::optional<std::string> inject;  // name of a secret

  [[nodiscard]] bool allows(std::string_view method) const;
};

// A header that is set on requests. Its value never leaves the process but towards the rule's host.
struct Secret {
  std::string header;
  std::string value;
};

struct Policy {
  Default fallback = Default::deny;
  Intercept intercept = Intercept::credentialed;
  std::vector<Rule> rules;
  std::map<std::string, Secret> secrets;
};

enum class Reason {
  rule,               // a rule lets it through
  default_allow,      // no rule names the host, the default lets it through
  host_not_listed,    // no rule names the host
  method_not_listed,  // rules name the host, none of them the method
};

// May this host be connected to at all, and is the connection opened?
struct ConnectVerdict {
  bool allowed = false;
  bool intercepted = false;
  Reason reason = Reason::host_not_listed;
  const Rule* rule = nullptr;  // first one that names the host; borrowed from the policy
};
ConnectVerdict judge_connect(const Policy& policy, const HostName& host, std::uint16_t port);

// May this request be made? The first rule that names host and method decides, and names the
// secret.
struct RequestVerdict {
  bool allowed = false;
  Reason reason = Reason::host_not_listed;
  const Rule* rule = nullptr;
  const Secret* secret = nullptr;  // to be injected; borrowed from the policy
};
RequestVerdict judge_request(const Policy& policy, const HostName& host, std::uint16_t port,
                             std::string_view method);

// "no rule lists host.test", for a person.
std::string describe(Reason reason, const HostName& host, std::string_view method);

}  // namespace daiv::proxy
