#include "cli/proxy_environment.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace daiv::cli {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

ProxyEnvironment read_proxy_environment(const VariableLookup& variable) {
  const auto find = [&](const std::string& name) {
    auto value = variable(name);
    if (!value || value->empty()) value = variable(lower_case(name));
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
