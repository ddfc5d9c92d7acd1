#include "proxy/outbound_sockets.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <span>
#include <stdexcept>
#include <utility>

#include "os/error.hpp"

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace daiv::proxy {
namespace {

bool ends_in(const os::UniqueFd& routes, const ip::address& address) {
  if (address.is_v4()) return os::is_local_address(routes, address.to_v4().to_bytes());
  return os::is_local_address(routes, address.to_v6().to_bytes());
}

// What a coroutine waits for while a thread of the pool makes a socket.
struct Slot {
  Slot(const asio::any_io_executor& executor, std::chrono::steady_clock::time_point until)
      : timer(executor, until) {}
  asio::steady_timer timer;  // cancelled by the result
  OutboundResult result = std::unexpected(std::string());
  bool done = false;  // set on the executor: until then the result is the pool's
};

OutboundResult try_to_take(OutboundSockets& sockets, OutboundKind kind) {
  try {
    return sockets.take(kind);
  } catch (const std::exception& error) {
    return std::unexpected(std::string(error.what()));
  }
}

}  // namespace

bool OutboundNetwork::is_own(const ip::address& address) const {
  try {
    return ends_in(routes_, address);
  } catch (const os::Error&) {
    return true;  // what can't be judged is not connected to
  }
}

std::vector<OutboundSocket> OutboundSockets::take_stale(Shelf& shelf) {
  const auto present = find_present_();
  const std::scoped_lock lock(mutex_);
  const bool is_stale =
      !shelf.sockets.empty() && shelf.sockets.front().network->identity() != present;
  return is_stale ? std::exchange(shelf.sockets, {}) : std::vector<OutboundSocket>();
}

std::optional<OutboundSocket> OutboundSockets::try_take(OutboundKind kind) {
  Shelf& its = shelf(kind);
  take_stale(its);
  const std::scoped_lock lock(mutex_);
  if (its.sockets.empty()) return std::nullopt;
  OutboundSocket taken = std::move(its.sockets.back());
  its.sockets.pop_back();
  return taken;
}

OutboundSocket OutboundSockets::take(OutboundKind kind) {
  Shelf& its = shelf(kind);
  const std::scoped_lock opening(its.opening);
  if (auto kept = try_take(kind)) return *std::move(kept);
  OutboundBatch batch = open_(kind);
  if (batch.sockets.empty()) throw std::runtime_error("no socket was made");
  const auto network =
      std::make_shared<const OutboundNetwork>(batch.network, std::move(batch.routes));
  OutboundSocket taken{std::move(batch.sockets.back()), network};
  batch.sockets.pop_back();
  const std::scoped_lock lock(mutex_);
  its.sockets.clear();
  for (os::UniqueFd& socket : batch.sockets) its.sockets.push_back({std::move(socket), network});
  return taken;
}

void OutboundSockets::drop_stale() {
  for (Shelf& one : shelves_) take_stale(one);
}

asio::awaitable<OutboundResult> take_outbound(std::shared_ptr<OutboundSockets> sockets,
                                              OutboundKind kind, asio::any_io_executor executor,
                                              asio::thread_pool& pool,
                                              std::chrono::steady_clock::time_point until) {
  if (auto kept = sockets->try_take(kind)) co_return *std::move(kept);
  const auto slot = std::make_shared<Slot>(executor, until);
  asio::post(pool, [slot, sockets, kind, executor] {
    slot->result = try_to_take(*sockets, kind);
    asio::post(executor, [slot] {
      slot->done = true;
      slot->timer.cancel();
    });
  });
  const auto woken = co_await slot->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  static_cast<void>(woken);
  if (slot->done) co_return std::move(slot->result);
  co_return std::unexpected(std::string("no socket was made in time"));
}

}  // namespace daiv::proxy
