#include "cli/proxy_environment.hpp"

#include <cstdlib>

#include "wire/ascii.hpp"

namespace daiv::cli {

ProxyEnvironment read_proxy_environment(const VariableLookup& variable) {
  const auto find = [&](const std::string& name) {
    auto value = variable(name);
    if (!value || value->empty()) value = variable(wire::lower(name));
    return value.value_or("");
  };
  return {find("HTTPS_PROXY"), find("HTTP_PROXY"), find("NO_PROXY")};
}

std::optional<std::string> find_environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace daiv::cli
