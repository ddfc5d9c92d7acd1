#pragma once

#include <functional>
#include <optional>
#include <string>

namespace daiv::cli {

// The proxies that registries are reached through, as programs commonly take them from their
// environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, or the same in lower case where the first is
// not set.
struct ProxyEnvironment {
  std::string https_proxy;  // a URL; empty: none
  std::string http_proxy;
  std::string no_proxy;  // hosts and domains, comma separated
};

// `variable` gives the value of a variable, or nothing where it is not set.
using VariableLookup = std::function<std::optional<std::string>(const std::string&)>;
ProxyEnvironment read_proxy_environment(const VariableLookup& variable);

// That of this process (getenv(3)).
std::optional<std::string> find_environment_variable(const std::string& name);

}  // namespace daiv::cli
