#include "proxy/egress_proxy.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "os/error.hpp"
#include "proxy/answer.hpp"
#include "proxy/client_connection.hpp"
#include "proxy/name_service.hpp"
#include "proxy/proxied_session.hpp"

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

// How late a deadline may be noticed.
constexpr milliseconds sweep_interval{100};
// Without descriptors accepting fails at once, again and again (accept(2), EMFILE).
constexpr milliseconds accept_pause{100};

ip::tcp protocol_of(const os::UniqueFd& socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  os::check(::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size), "getsockopt",
            "SO_DOMAIN");
  return domain == AF_INET6 ? ip::tcp::v6() : ip::tcp::v4();
}

// What a connection throws (out of memory, a signature that fails) ends it and nothing else.
void report(const std::string& session, const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    spdlog::error("session={} egress connection: {}", session, failure.what());
  }
}

}  // namespace

class EgressProxy::Impl : public std::enable_shared_from_this<Impl> {
public:
  Impl(EgressSettings settings, DecisionLog log, asio::any_io_executor executor,
       asio::thread_pool& pool)
      : core_(std::make_shared<ProxyCore>(std::move(settings), std::move(log), executor, pool)),
        sweep_(executor),
        empty_(executor, steady_clock::time_point::max()) {}

  void add(const std::string& id, std::vector<os::UniqueFd> listeners, Policy policy,
           TransparentSockets transparent) {
    remove(id);
    Served served;
    served.session = std::make_shared<ProxiedSession>(id, *core_, std::move(policy));
    for (auto& listener : listeners) open_door(served, std::move(listener), Door::proxy);
    if (transparent.http) {
      open_door(served, std::move(transparent.http), Door::http);
      open_door(served, std::move(transparent.https), Door::https);
      open_door(served, std::move(transparent.name_streams), Door::names);
      served.names = std::make_shared<ip::udp::socket>(core_->executor);
      served.names->assign(ip::udp::v4(), transparent.names.get());
      static_cast<void>(transparent.names.release());
    }
    for (const auto& [acceptor, door] : served.doors)
      start(accept(shared_from_this(), served.session, acceptor, door));
    if (served.names) start(serve_name_datagrams(served.session, served.names));
    sessions_.insert_or_assign(id, std::move(served));
  }

  bool update(const std::string& id, Policy policy) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return false;
    ProxiedSession& session = *found->second.session;
    session.policy = std::make_shared<const Policy>(std::move(policy));
    ++session.policy_number;
    session.idle.clear();  // they may have carried what is no secret of the policy any more
    for (const OpenTunnel& tunnel : session.tunnels) {
      if (is_open(*session.policy, tunnel)) continue;
      ++core_->counters.tunnels_cut;
      tunnel.client->cut();
      tunnel.upstream->cut();
    }
    return true;
  }

  void remove(const std::string& id) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    const Served served = std::move(found->second);
    sessions_.erase(found);
    served.session->removed = true;
    error_code ignored;
    for (const auto& [acceptor, door] : served.doors) acceptor->close(ignored);
    if (served.names) served.names->close(ignored);
    served.session->channels.cut_all();
    served.session->idle.clear();
  }

  void remove_all() {
    while (!sessions_.empty()) {
      const std::string id = sessions_.begin()->first;
      remove(id);
    }
  }

  [[nodiscard]] bool serves(const std::string& id) const { return sessions_.contains(id); }

  void replace_authority(std::shared_ptr<const CertificateAuthority> authority) {
    core_->settings.authority = std::move(authority);
    core_->leaves.clear();
  }

  [[nodiscard]] EgressCounters counters() const {
    EgressCounters counters = core_->counters;
    counters.open_connections = open_.size();
    return counters;
  }

  asio::awaitable<void> wait_until_empty() {
    while (!open_.empty() || accepting_ > 0) {
      const auto woken = co_await empty_.async_wait(asio::as_tuple(asio::use_awaitable));
      static_cast<void>(woken);
    }
  }

private:
  enum class Door { proxy, http, https, names };
  // Sockets are shared with the coroutine that serves them, and are closed from here.
  struct Served {
    std::shared_ptr<ProxiedSession> session;
    std::vector<std::pair<std::shared_ptr<ip::tcp::acceptor>, Door>> doors;
    std::shared_ptr<ip::udp::socket> names;  // null: no transparent mode
  };
  // Sessions with a connection each; a session that was removed stays while it has some.
  using Open = std::list<std::shared_ptr<ProxiedSession>>;

  void open_door(Served& served, os::UniqueFd listener, Door door) const {
    const ip::tcp protocol = protocol_of(listener);
    auto acceptor = std::make_shared<ip::tcp::acceptor>(core_->executor);
    acceptor->assign(protocol, listener.get());
    static_cast<void>(listener.release());
    served.doors.emplace_back(std::move(acceptor), door);
  }

  void start(asio::awaitable<void> service) {
    ++accepting_;
    asio::co_spawn(core_->executor, std::move(service),
                   [self = shared_from_this()](const std::exception_ptr&) {
                     --self->accepting_;
                     self->announce_end();
                   });
  }

  bool is_open(const Policy& policy, const OpenTunnel& tunnel) const {
    const auto& [host, port] = tunnel.authority;
    const Rule* rule = nullptr;
    if (tunnel.method) {
      const RequestVerdict verdict = judge_request(policy, host, port, *tunnel.method);
      if (!verdict.allowed) return false;
      rule = verdict.rule;
    } else {
      const ConnectVerdict verdict = judge_connect(policy, host, port);
      // One that would be opened and judged now can't go on unjudged.
      if (!verdict.allowed || verdict.intercepted) return false;
      rule = verdict.rule;
    }
    return judge(*core_, tunnel.address, rule, tunnel.network.get()) == AddressVerdict::allowed;
  }

  static asio::awaitable<void> accept(std::shared_ptr<Impl> self,
                                      std::shared_ptr<ProxiedSession> session,
                                      std::shared_ptr<ip::tcp::acceptor> acceptor, Door door) {
    while (acceptor->is_open() && !session->removed) {
      ip::tcp::socket socket(self->core_->executor);
      const auto result =
          co_await acceptor->async_accept(socket, asio::as_tuple(asio::use_awaitable));
      const error_code error = std::get<0>(result);
      if (session->removed || error == asio::error::operation_aborted) co_return;
      if (!error) {
        self->take(session, std::move(socket), door);
        continue;
      }
      // The peer was gone already, or descriptors are short: neither is the listener's end.
      asio::steady_timer pause(self->core_->executor, accept_pause);
      const auto waited = co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
      static_cast<void>(waited);
    }
  }

  // What is said to one connection too many. A client of TLS or DNS would not understand it.
  static void turn_away(ip::tcp::socket& socket, Door door) {
    if (door != Door::proxy && door != Door::http) return;
    error_code ignored;
    const std::string text =
        to_text(make_bad_request(503, "too many connections"), AnswerBody::sent);
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);
  }

  asio::awaitable<void> serve(const std::shared_ptr<ProxiedSession>& session,
                              ip::tcp::socket socket, Door door) const {
    switch (door) {
      case Door::proxy:
        return serve_client(core_, session, std::move(socket), Arrival::proxy);
      case Door::http:
        return serve_client(core_, session, std::move(socket), Arrival::http);
      case Door::https:
        return serve_client(core_, session, std::move(socket), Arrival::https);
      case Door::names:
        break;
    }
    return serve_name_connection(session, std::move(socket));
  }

  void take(const std::shared_ptr<ProxiedSession>& session, ip::tcp::socket socket, Door door) {
    ++core_->counters.connections;
    error_code ignored;
    if (session->connections >= core_->settings.max_connections) {
      ++core_->counters.refused_connections;
      turn_away(socket, door);
      return;
    }
    socket.set_option(ip::tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto entry = open_.insert(open_.end(), session);
    ++session->connections;
    arm_sweep();
    auto ended = [self = shared_from_this(), entry](const std::exception_ptr& error) {
      report((*entry)->id, error);
      --(*entry)->connections;
      self->open_.erase(entry);
      self->announce_end();
    };
    asio::co_spawn(core_->executor, serve(session, std::move(socket), door), std::move(ended));
  }

  void announce_end() {
    if (is_quiet()) sweep_.cancel();
    if (open_.empty() && accepting_ == 0) empty_.cancel();
  }

  // No connection of a client or kept to an origin.
  [[nodiscard]] bool is_quiet() const {
    return open_.empty() && std::ranges::all_of(sessions_, [](const auto& entry) {
             return entry.second.session->idle.empty();
           });
  }

  // One timer for all deadlines, while there is a connection.
  void arm_sweep() {
    if (std::exchange(sweeping_, true)) return;
    sweep_.expires_after(sweep_interval);
    sweep_.async_wait([weak = weak_from_this()](const error_code&) {
      const auto self = weak.lock();
      if (!self) return;
      self->sweeping_ = false;
      if (self->is_quiet()) return;
      self->sweep();
      self->arm_sweep();
    });
  }

  void sweep() {
    const auto now = steady_clock::now();
    // The waits of a session that was removed have been woken by the cut.
    for (const auto& [id, served] : sessions_) {
      served.session->channels.expire(now);
      served.session->idle.expire(now);
    }
  }

  std::shared_ptr<ProxyCore> core_;  // shared with connections, which end after us
  std::map<std::string, Served, std::less<>> sessions_;
  Open open_;
  std::size_t accepting_ = 0;
  bool sweeping_ = false;
  asio::steady_timer sweep_;
  asio::steady_timer empty_;  // cancelled when the last connection ends
};

EgressProxy::EgressProxy(EgressSettings settings, DecisionLog log, asio::any_io_executor executor,
                         asio::thread_pool& pool)
    : impl_(
          std::make_shared<Impl>(std::move(settings), std::move(log), std::move(executor), pool)) {}

EgressProxy::~EgressProxy() { impl_->remove_all(); }

void EgressProxy::add(const std::string& session, std::vector<os::UniqueFd> listeners,
                      Policy policy, TransparentSockets transparent) {
  impl_->add(session, std::move(listeners), std::move(policy), std::move(transparent));
}

bool EgressProxy::update(const std::string& session, Policy policy) {
  return impl_->update(session, std::move(policy));
}

void EgressProxy::remove(const std::string& session) { impl_->remove(session); }

bool EgressProxy::serves(const std::string& session) const { return impl_->serves(session); }

void EgressProxy::replace_authority(std::shared_ptr<const CertificateAuthority> authority) {
  impl_->replace_authority(std::move(authority));
}

EgressCounters EgressProxy::counters() const { return impl_->counters(); }

asio::awaitable<void> EgressProxy::stop() {
  const std::shared_ptr<Impl> impl = impl_;
  impl->remove_all();
  co_await impl->wait_until_empty();
}

}  // namespace daiv::proxy
