#include "cli/passed_listeners.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "os/error.hpp"

namespace daiv::cli {
namespace {

struct Bound {
  std::string address;  // a path for a unix socket
  std::optional<std::uint16_t> port;
};

template <typename Address>
Address read_as(const sockaddr_storage& storage) {
  Address address{};
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

Bound bound_at(const os::UniqueFd& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  os::check(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size),
            "getsockname", "passed socket");
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto address = read_as<sockaddr_in>(storage);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(address.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto address = read_as<sockaddr_in6>(storage);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(address.sin6_port)};
  }
  const auto address = read_as<sockaddr_un>(storage);
  return {std::string(address.sun_path, ::strnlen(address.sun_path, sizeof address.sun_path)),
          std::nullopt};
}

bool is_unspecified(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

bool is_set(const LoadedSettings& loaded, std::string_view name) {
  return std::ranges::any_of(loaded.values, [&](const SettingValue& value) {
    return value.spec->name == name && value.source != Source::built_in;
  });
}

bool same_address(const std::string& wanted, const std::string& actual) {
  return wanted == actual || (is_unspecified(wanted) && is_unspecified(actual));
}

std::string mismatch(std::string_view name, const std::string& value, const std::string& actual) {
  return fmt::format(
      "DAIV_SANDBOX_{}={}, but the socket unit listens on {}: change ListenStream= there "
      "(systemctl edit daiv-sandbox.socket), or unset it",
      name, value, actual);
}

}  // namespace

std::vector<std::string> find_listener_conflicts(const LoadedSettings& loaded,
                                                 const std::vector<os::PassedSocket>& sockets) {
  const Settings& settings = loaded.settings;
  std::vector<std::string> conflicts;
  for (const os::PassedSocket& passed : sockets) {
    if (passed.name == "https" && settings.tls_cert_file.empty())
      conflicts.emplace_back(
          "a socket called https was passed: set DAIV_SANDBOX_TLS_CERT_FILE and "
          "DAIV_SANDBOX_TLS_KEY_FILE");
    const Bound bound = bound_at(passed.socket);
    if (!bound.port) continue;
    const std::string actual = describe_listener(passed.socket);
    if (is_set(loaded, "DAIV_SANDBOX_HOST") && !same_address(settings.host, bound.address))
      conflicts.push_back(mismatch("HOST", settings.host, actual));
    if (is_set(loaded, "DAIV_SANDBOX_PORT") && settings.port != *bound.port)
      conflicts.push_back(mismatch("PORT", std::to_string(settings.port), actual));
  }
  return conflicts;
}

std::string describe_listener(const os::UniqueFd& socket) {
  const Bound bound = bound_at(socket);
  if (!bound.port) return "unix:" + bound.address;
  const bool is_v6 = bound.address.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", bound.address, *bound.port)
               : fmt::format("{}:{}", bound.address, *bound.port);
}

}  // namespace daiv::cli
