#include "proxy/resolver.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>
#include <unordered_map>
#include <utility>

#include "proxy/dns_lookup.hpp"
#include "proxy/egress_proxy.hpp"
#include "proxy/outbound_sockets.hpp"

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

constexpr std::size_t threads = 8;
constexpr std::size_t max_cached = 4096;

}  // namespace

struct Resolver::State {
  using Network = std::optional<os::NetworkIdentity>;
  struct Pending {
    std::vector<std::shared_ptr<asio::steady_timer>> waiters;  // cancelled by the answer
  };
  struct Cached {
    Lookup lookup;
    steady_clock::time_point until;
  };

  State(asio::any_io_executor its_executor, LookupWays its_ways)
      : executor(std::move(its_executor)), ways(std::move(its_ways)) {}

  // Another network's name servers may know other addresses.
  void notice_network() {
    if (!ways.sockets) return;
    const auto present = ways.sockets->find_present();
    if (std::exchange(network, present) != present) cache.clear();
  }

  void settle(const std::string& name, TimedLookup answer, const Network& asked_in) {
    const auto now = steady_clock::now();
    if (asked_in != network) answer.lifetime = min_answer_lifetime;  // for those who wait for it
    if (cache.size() >= max_cached)
      std::erase_if(cache, [&](const auto& entry) { return entry.second.until <= now; });
    if (cache.size() >= max_cached) cache.clear();
    cache.insert_or_assign(name, Cached{std::move(answer.lookup), now + answer.lifetime});
    const auto found = pending.find(name);
    if (found == pending.end()) return;
    for (const auto& waiter : found->second.waiters) waiter->cancel();
    pending.erase(found);
  }

  const Lookup* find(const std::string& name) const {
    const auto found = cache.find(name);
    if (found == cache.end() || found->second.until <= steady_clock::now()) return nullptr;
    return &found->second.lookup;
  }

  asio::any_io_executor executor;
  LookupWays ways;
  Network network;  // as it was when a name was last asked for
  std::unordered_map<std::string, std::vector<ip::address>> extra;
  std::unordered_map<std::string, Cached> cache;
  std::unordered_map<std::string, Pending> pending;
  std::unique_ptr<asio::thread_pool> pool;  // made at the first look-up
};

Resolver::Resolver(asio::any_io_executor executor, const std::vector<ExtraHost>& extra_hosts,
                   LookupWays ways)
    : state_(std::make_shared<State>(std::move(executor), std::move(ways))) {
  for (const auto& [host, address] : extra_hosts) state_->extra[host.text()].push_back(address);
}

Resolver::~Resolver() {
  if (!state_->pool) return;
  state_->pool->stop();
  state_->pool->join();
  state_->pool.reset();  // here, never on one of its own threads
}

asio::awaitable<Lookup> Resolver::resolve(HostName host, steady_clock::time_point until) {
  const std::shared_ptr<State> state = state_;
  const std::string& name = host.text();
  if (const auto extra = state->extra.find(name); extra != state->extra.end())
    co_return extra->second;
  if (host.is_address()) {
    std::vector<ip::address> literal;
    literal.push_back(ip::make_address(name));
    co_return literal;
  }
  state->notice_network();
  if (const Lookup* known = state->find(name)) co_return *known;
  const auto waiter = std::make_shared<asio::steady_timer>(state->executor, until);
  const bool first = !state->pending.contains(name);
  state->pending[name].waiters.push_back(waiter);
  if (first) {
    if (!state->pool) state->pool = std::make_unique<asio::thread_pool>(threads);
    const auto executor = state->executor;
    // A weak reference: the last owner of the state must not be a thread of its own pool.
    const std::weak_ptr<State> weak = state;
    asio::post(*state->pool, [weak, executor, name, ways = state->ways, network = state->network] {
      TimedLookup answer = look_up(name, ways);
      asio::post(executor, [weak, name, answer = std::move(answer), network]() mutable {
        if (const auto alive = weak.lock()) alive->settle(name, std::move(answer), network);
      });
    });
  }
  const auto woken = co_await waiter->async_wait(asio::as_tuple(asio::use_awaitable));
  static_cast<void>(woken);
  if (const Lookup* known = state->find(name)) co_return *known;
  co_return std::unexpected(
      LookupFault{LookupFault::Kind::timed_out, name + ": the name look-up timed out"});
}

}  // namespace daiv::proxy
