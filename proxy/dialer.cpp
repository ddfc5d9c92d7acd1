#include "proxy/dialer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

// An address that does not answer must not use up the time of those behind it.
constexpr milliseconds impatient_limit{3000};

// SO_BINDTODEVICE (socket(7)) as Asio takes options; without privilege since Linux 5.7, once a
// socket.
class BindToDevice {
public:
  explicit BindToDevice(const std::string& name) : name_(name) {}
  template <typename Protocol>
  [[nodiscard]] int level(const Protocol&) const {
    return SOL_SOCKET;
  }
  template <typename Protocol>
  [[nodiscard]] int name(const Protocol&) const {
    return SO_BINDTODEVICE;
  }
  template <typename Protocol>
  [[nodiscard]] const void* data(const Protocol&) const {
    return name_.c_str();
  }
  template <typename Protocol>
  [[nodiscard]] std::size_t size(const Protocol&) const {
    return name_.size() + 1;
  }

private:
  const std::string& name_;
};

std::string describe_verdict(const HostName& host, const ip::address& address,
                             AddressVerdict verdict) {
  const std::string where = host.is_address()
                                ? host.text() + " is"
                                : fmt::format("{} is {},", host.text(), address.to_string());
  if (verdict == AddressVerdict::private_not_named)
    return fmt::format("{} a private address: only a rule that names the host opens it", where);
  const auto name = forbidden_name(address);
  if (name.empty()) return fmt::format("{} an address of this host, which is never open", where);
  return fmt::format("{} {} {} address, which is never open", where,
                     name.starts_with('u') ? "an" : "a", name);
}

class Dialer {
public:
  Dialer(ProxyCore& core, ProxiedSession& session, Authority authority, const Rule* rule)
      : core_(core),
        session_(session),
        authority_(std::move(authority)),
        rule_(rule),
        until_(steady_clock::now() + core.settings.timeouts.dial) {}

  asio::awaitable<std::expected<Upstream, DialFault>> run(Scheme scheme, Protocols protocols) {
    Lookup lookup = co_await core_.resolver.resolve(authority_.host, until_);
    if (!lookup) {
      const bool timed_out = lookup.error().kind == LookupFault::Kind::timed_out;
      co_return std::unexpected(DialFault{timed_out ? 504 : 502, lookup.error().text});
    }
    auto endpoints = plan_endpoints(*lookup);
    if (!endpoints) co_return std::unexpected(std::move(endpoints.error()));
    auto upstream = co_await connect_any(std::move(*endpoints));
    if (!upstream || scheme == Scheme::http) co_return upstream;
    upstream->scheme = Scheme::https;
    SslPtr ssl = session_.upstream_tls.make(authority_.host, authority_.port, protocols);
    Channel& channel = *upstream->channel;
    const std::string fault =
        co_await channel.handshake(std::move(ssl), std::string(), time_left());
    upstream->protocol = channel.protocol();
    if (fault.empty()) co_return upstream;
    const int status = steady_clock::now() >= until_ ? 504 : 502;
    co_return std::unexpected(
        DialFault{status, fmt::format("TLS with {}: {}", authority_.host.text(), fault)});
  }

private:
  [[nodiscard]] milliseconds time_left() const {
    const auto left = std::chrono::duration_cast<milliseconds>(until_ - steady_clock::now());
    return std::max(left, milliseconds(0));
  }

  // Those of the addresses that may be connected to.
  std::expected<std::vector<ip::tcp::endpoint>, DialFault> plan_endpoints(
      const std::vector<ip::address>& addresses) const {
    std::vector<ip::tcp::endpoint> endpoints;
    std::string refused;
    for (const auto& address : addresses) {
      const ip::tcp::endpoint endpoint(address, authority_.port);
      AddressVerdict verdict = judge(core_, address, rule_, nullptr);
      if (core_.settings.is_closed_endpoint && core_.settings.is_closed_endpoint(endpoint))
        verdict = AddressVerdict::forbidden;
      if (verdict == AddressVerdict::allowed)
        endpoints.push_back(endpoint);
      else
        refused = describe_verdict(authority_.host, address, verdict);
    }
    if (endpoints.empty()) return std::unexpected(DialFault{403, refused});
    return endpoints;
  }

  asio::awaitable<std::expected<Upstream, DialFault>> connect_any(
      std::vector<ip::tcp::endpoint> endpoints) {
    DialFault fault;
    for (std::size_t index = 0; index < endpoints.size() && !session_.removed; ++index) {
      const bool is_last = index + 1 == endpoints.size();
      const ip::tcp::endpoint& endpoint = endpoints[index];
      milliseconds limit = std::min(core_.settings.timeouts.connect, time_left());
      if (!is_last) limit = std::min(limit, impatient_limit);
      auto exit = co_await open_exit(endpoint);
      if (!exit) {
        fault = std::move(exit.error());
        continue;
      }
      auto channel = std::make_unique<Channel>(session_.channels, std::move(exit->socket));
      const error_code error = co_await channel->connect(endpoint, limit);
      if (!error) {
        Upstream upstream{.authority = authority_,
                          .credential = {},
                          .address = endpoint.address(),
                          .network = std::move(exit->network),
                          .channel = {},
                          .received = {},
                          .idle_since = {}};
        upstream.channel = std::move(channel);
        co_return upstream;
      }
      fault = describe_failure(endpoint, error);
    }
    co_return std::unexpected(std::move(fault));
  }

  // A socket that may connect to `endpoint`, and the namespace that it leaves.
  struct Exit {
    ip::tcp::socket socket;
    std::shared_ptr<const OutboundNetwork> network;
  };

  using Opened = std::expected<Exit, DialFault>;

  asio::awaitable<Opened> open_exit(ip::tcp::endpoint endpoint) {
    if (!core_.settings.outbound) co_return with_options(open_own(endpoint));
    Opened taken = co_await take_exit(endpoint);
    co_return with_options(std::move(taken));
  }

  static Opened with_options(Opened exit) {
    if (!exit) return exit;
    error_code ignored;
    exit->socket.set_option(ip::tcp::no_delay(true), ignored);
    // Finds peers that vanished during a tunnel's long silence.
    exit->socket.set_option(asio::socket_base::keep_alive(true), ignored);
    return exit;
  }

  Opened open_own(const ip::tcp::endpoint& endpoint) const {
    ip::tcp::socket socket(core_.executor);
    error_code error;
    socket.open(endpoint.protocol(), error);
    const std::string& device = core_.settings.outbound_interface;
    if (!error && !device.empty()) socket.set_option(BindToDevice(device), error);
    if (error) return std::unexpected(describe_failure(endpoint, error));
    return Exit{std::move(socket), nullptr};
  }

  // The namespace has addresses of its own, which are known with the socket.
  asio::awaitable<Opened> take_exit(ip::tcp::endpoint endpoint) {
    const bool is_v4 = endpoint.protocol() == ip::tcp::v4();
    const OutboundKind kind = is_v4 ? OutboundKind::tcp4 : OutboundKind::tcp6;
    auto taken =
        co_await take_outbound(core_.settings.outbound, kind, core_.executor, core_.pool, until_);
    if (!taken) co_return std::unexpected(DialFault{502, std::move(taken.error())});
    const AddressVerdict verdict = judge(core_, endpoint.address(), rule_, taken->network.get());
    if (verdict != AddressVerdict::allowed)
      co_return std::unexpected(
          DialFault{403, describe_verdict(authority_.host, endpoint.address(), verdict)});
    ip::tcp::socket socket(core_.executor);
    error_code error;
    socket.assign(endpoint.protocol(), taken->socket.get(), error);
    if (error) co_return std::unexpected(describe_failure(endpoint, error));
    static_cast<void>(taken->socket.release());
    co_return Exit{std::move(socket), std::move(taken->network)};
  }

  DialFault describe_failure(const ip::tcp::endpoint& endpoint, const error_code& error) const {
    const int status = error == asio::error::timed_out ? 504 : 502;
    return {status, fmt::format("connect {}:{} ({}): {}", authority_.host.in_url(), authority_.port,
                                endpoint.address().to_string(), error.message())};
  }

  ProxyCore& core_;
  ProxiedSession& session_;
  Authority authority_;
  const Rule* rule_;
  steady_clock::time_point until_;
};

}  // namespace

AddressVerdict judge(const ProxyCore& core, const ip::address& address, const Rule* rule,
                     const OutboundNetwork* network) {
  const EgressSettings& settings = core.settings;
  if (settings.address_judge) return settings.address_judge(address, rule);
  return judge_address(address, rule, [&](const ip::address& carried) {
    if (settings.is_own_address && settings.is_own_address(carried)) return true;
    return network != nullptr && (network->is_own(carried) || network->is_own(address));
  });
}

bool is_present(const ProxyCore& core, const OutboundNetwork* network) {
  const auto& outbound = core.settings.outbound;
  return network == nullptr ? !outbound : network->identity() == outbound->find_present();
}

asio::awaitable<std::expected<Upstream, DialFault>> dial(std::shared_ptr<ProxyCore> core,
                                                         std::shared_ptr<ProxiedSession> session,
                                                         Authority authority, Scheme scheme,
                                                         const Rule* rule, Protocols protocols) {
  Dialer dialer(*core, *session, std::move(authority), rule);
  auto upstream = co_await dialer.run(scheme, protocols);
  co_return upstream;
}

}  // namespace daiv::proxy
