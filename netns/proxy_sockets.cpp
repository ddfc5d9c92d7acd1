#include "netns/proxy_sockets.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "netns/detail/visit.hpp"
#include "netns/link.hpp"

namespace daiv::netns {
namespace {

constexpr int backlog = 1024;

void switch_on(const os::UniqueFd& socket, int level, int option, std::string_view name) {
  const int on = 1;
  os::check(::setsockopt(socket.get(), level, option, &on, sizeof on), "setsockopt", name);
}

os::UniqueFd open_bound(int type, std::uint32_t address, std::uint16_t port) {
  os::UniqueFd socket(
      os::check(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket", "proxy"));
  if (type == SOCK_STREAM) switch_on(socket, SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR");
  // An address that is not there yet, and answers from addresses that are nobody's (ip(7)).
  switch_on(socket, SOL_IP, IP_TRANSPARENT, "IP_TRANSPARENT");
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(address);
  os::check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), "bind",
            "proxy");
  return socket;
}

os::UniqueFd listen_on(std::uint32_t address, std::uint16_t port) {
  os::UniqueFd socket = open_bound(SOCK_STREAM, address, port);
  os::check(::listen(socket.get(), backlog), "listen", "proxy");
  return socket;
}

}  // namespace

std::vector<os::UniqueFd> open_proxy_sockets(const os::UniqueFd& network_namespace,
                                             std::uint32_t address, std::uint16_t port,
                                             Transparency transparency) {
  const Visit inside(network_namespace);
  std::vector<os::UniqueFd> sockets;
  sockets.push_back(listen_on(address, port));
  if (transparency == Transparency::off) return sockets;
  sockets.push_back(listen_on(INADDR_ANY, http_port));
  sockets.push_back(listen_on(INADDR_ANY, https_port));
  sockets.push_back(open_bound(SOCK_DGRAM, address, dns_port));
  sockets.push_back(listen_on(address, dns_port));
  return sockets;
}

std::uint32_t find_proxy_address(const os::UniqueFd& network_namespace) {
  const Visit inside(network_namespace);
  ifaddrs* raw = nullptr;
  os::check(::getifaddrs(&raw), "getifaddrs", proxy_end);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
        std::string_view(entry->ifa_name) != proxy_end)
      continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    return ntohl(address.sin_addr.s_addr);
  }
  throw os::Error(ENODEV, "getifaddrs", proxy_end);
}

}  // namespace daiv::netns
