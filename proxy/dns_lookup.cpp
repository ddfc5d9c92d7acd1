#include "proxy/dns_lookup.hpp"

#include <ares.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

#include "proxy/outbound_sockets.hpp"

namespace daiv::proxy {
namespace {

namespace ip = boost::asio::ip;
using std::chrono::steady_clock;

constexpr std::size_t max_addresses = 16;
constexpr int try_limit_ms = 3000;  // for one try of one name server
constexpr int tries = 2;
constexpr std::chrono::seconds lookup_limit{20};

struct ReleaseChannel {
  void operator()(ares_channel channel) const noexcept { ::ares_destroy(channel); }
};
using AresChannel = std::unique_ptr<std::remove_pointer_t<ares_channel>, ReleaseChannel>;
struct ReleaseAnswer {
  void operator()(ares_addrinfo* answer) const noexcept { ::ares_freeaddrinfo(answer); }
};
using Answer = std::unique_ptr<ares_addrinfo, ReleaseAnswer>;

TimedLookup failed(std::string text) {
  return {std::unexpected(LookupFault{LookupFault::Kind::failed, std::move(text)}),
          failure_lifetime};
}

std::optional<ip::address> to_address(const sockaddr* raw) {
  if (raw->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, raw, sizeof in);
    return ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (raw->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 in6{};
  std::memcpy(&in6, raw, sizeof in6);
  ip::address_v6::bytes_type bytes{};
  std::memcpy(bytes.data(), &in6.sin6_addr, bytes.size());
  return ip::address_v6(bytes, in6.sin6_scope_id);
}

// What c-ares calls back with. It outlives the channel, which calls back in its destruction, too.
struct Outcome {
  bool done = false;
  int status = ARES_ECANCELLED;
  Answer answer;
};

void take(void* argument, int status, int /*timeouts*/, ares_addrinfo* answer) noexcept {
  auto& outcome = *static_cast<Outcome*>(argument);
  outcome.done = true;
  outcome.status = status;
  outcome.answer.reset(answer);
}

// Sockets that are not this process's to make, as c-ares asks for them (ares_set_socket_functions).
struct LentSockets {
  OutboundSockets* from = nullptr;
  std::set<OutboundKind> absent;  // asked for once and not again
  std::string fault;              // why
};

ares_socket_t open_lent(int family, int type, int /*protocol*/, void* data) noexcept {
  auto& lent = *static_cast<LentSockets*>(data);
  const bool is_v4 = family == AF_INET;
  const bool is_stream = (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM;
  const OutboundKind kind = is_stream ? (is_v4 ? OutboundKind::tcp4 : OutboundKind::tcp6)
                                      : (is_v4 ? OutboundKind::udp4 : OutboundKind::udp6);
  try {
    if (!lent.absent.contains(kind)) return lent.from->take(kind).socket.release();
  } catch (const std::exception& error) {
    lent.fault = error.what();
    lent.absent.insert(kind);
  }
  errno = ENETDOWN;
  return ARES_SOCKET_BAD;
}

// All five are ours, since releases differ in what they do where one is missing.
const ares_socket_functions lent_functions{
    .asocket = open_lent,
    .aclose = [](ares_socket_t socket, void*) { return ::close(socket); },
    .aconnect = [](ares_socket_t socket, const sockaddr* address, ares_socklen_t size,
                   void*) { return ::connect(socket, address, size); },
    .arecvfrom = [](ares_socket_t socket, void* data, std::size_t size, int flags, sockaddr* from,
                    ares_socklen_t* from_size,
                    void*) { return ::recvfrom(socket, data, size, flags, from, from_size); },
    .asendv = [](ares_socket_t socket, const iovec* parts, int count,
                 void*) { return ::writev(socket, parts, count); },
};

// c-ares 1.34 deprecates the call for another, which Debian 12's 1.18 has not.
void lend_sockets(ares_channel channel, LentSockets& lent) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ::ares_set_socket_functions(channel, &lent_functions, &lent);
#pragma GCC diagnostic pop
}

// The sockets of a channel, with what it waits for on each. They outlive the channel, which tells
// of its sockets' end in its destruction, too.
using Sockets = std::vector<pollfd>;

void watch(void* argument, ares_socket_t socket, int readable, int writable) noexcept {
  auto& sockets = *static_cast<Sockets*>(argument);
  std::erase_if(sockets, [&](const pollfd& known) { return known.fd == socket; });
  const int events = (readable != 0 ? POLLIN : 0) | (writable != 0 ? POLLOUT : 0);
  if (events != 0) sockets.push_back({socket, static_cast<short>(events), 0});
}

// Throws nothing: what fails is in the status.
int open_channel(const LookupWays& ways, Sockets& sockets, AresChannel& channel) {
  static std::once_flag once;
  std::call_once(once, [] { ::ares_library_init(ARES_LIB_INIT_ALL); });
  ares_options options{};
  options.timeout = try_limit_ms;
  options.tries = tries;
  options.sock_state_cb = watch;
  options.sock_state_cb_data = &sockets;
  int given = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
  std::string resolver_file = ways.resolver_file;
  if (!resolver_file.empty() && ::access(resolver_file.c_str(), F_OK) == 0) {
    options.resolvconf_path = resolver_file.data();  // copied
    given |= ARES_OPT_RESOLVCONF;
  }
  ares_channel opened = nullptr;
  const int status = ::ares_init_options(&opened, &options, given);
  if (status != ARES_SUCCESS) return status;
  channel.reset(opened);
  if (ways.servers.empty()) return ARES_SUCCESS;
  return ::ares_set_servers_ports_csv(opened, ways.servers.c_str());
}

// One step of waiting for `waits`; not by select(2), which knows no descriptor above 1023.
void serve_once(ares_channel channel, Sockets waits) {
  timeval most{try_limit_ms / 1000, 0};
  timeval limit{};
  const timeval* left = ::ares_timeout(channel, &most, &limit);
  const auto milliseconds = static_cast<int>(left->tv_sec * 1000 + left->tv_usec / 1000 + 1);
  ::poll(waits.data(), waits.size(), milliseconds);
  for (const pollfd& wait : waits) {
    const bool readable = (wait.revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    const bool writable = (wait.revents & POLLOUT) != 0;
    ::ares_process_fd(channel, readable ? wait.fd : ARES_SOCKET_BAD,
                      writable ? wait.fd : ARES_SOCKET_BAD);
  }
  ::ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // what is late
}

TimedLookup read(const std::string& name, const ares_addrinfo& answer) {
  std::vector<ip::address> addresses;
  std::chrono::seconds lifetime = max_answer_lifetime;
  const auto shorten = [&](int seconds) {
    lifetime = std::min(lifetime, std::chrono::seconds(std::max(seconds, 0)));
  };
  for (const auto* alias = answer.cnames; alias != nullptr; alias = alias->next)
    shorten(alias->ttl);
  for (const auto* node = answer.nodes; node != nullptr; node = node->ai_next) {
    const auto address = to_address(node->ai_addr);
    if (!address) continue;
    shorten(node->ai_ttl);
    const bool is_new = std::ranges::find(addresses, *address) == addresses.end();
    if (is_new && addresses.size() < max_addresses) addresses.push_back(*address);
  }
  if (addresses.empty()) return failed(name + ": no address");
  return {std::move(addresses), std::max(lifetime, min_answer_lifetime)};
}

}  // namespace

TimedLookup look_up(const std::string& name, const LookupWays& ways) {
  Outcome outcome;
  LentSockets lent{ways.sockets.get(), {}, {}};  // the channel uses it to its end
  Sockets sockets;
  AresChannel channel;
  if (const int status = open_channel(ways, sockets, channel); status != ARES_SUCCESS)
    return failed(fmt::format("{}: {}", name, ::ares_strerror(status)));
  if (ways.sockets) lend_sockets(channel.get(), lent);
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  ::ares_getaddrinfo(channel.get(), name.c_str(), nullptr, &hints, take, &outcome);
  const auto until = steady_clock::now() + lookup_limit;
  while (!outcome.done && steady_clock::now() < until) serve_once(channel.get(), sockets);
  if (!outcome.done) ::ares_cancel(channel.get());
  if (!lent.fault.empty() && outcome.status != ARES_SUCCESS)
    return failed(fmt::format("{}: {}", name, lent.fault));
  if (outcome.status != ARES_SUCCESS || !outcome.answer)
    return failed(fmt::format("{}: {}", name, ::ares_strerror(outcome.status)));
  return read(name, *outcome.answer);
}

}  // namespace daiv::proxy
