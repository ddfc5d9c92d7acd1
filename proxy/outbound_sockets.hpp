#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/thread_pool.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "os/network_namespace.hpp"
#include "os/unique_fd.hpp"

// Sockets of a network namespace that is not the front's, which only the broker can make.
namespace daiv::proxy {

enum class OutboundKind : std::uint8_t { tcp4, tcp6, udp4, udp6 };

// The namespace of a socket. It is asked through a NETLINK_ROUTE socket of its own, so that the
// answer is of the very namespace that the socket connects from.
class OutboundNetwork {
public:
  OutboundNetwork(os::NetworkIdentity identity, os::UniqueFd routes)
      : identity_(identity), routes_(std::move(routes)) {}

  [[nodiscard]] const os::NetworkIdentity& identity() const noexcept { return identity_; }
  // Whether a connection to `address` would end in the namespace itself; also where the kernel does
  // not say. Confined to the proxy's thread.
  [[nodiscard]] bool is_own(const boost::asio::ip::address& address) const;

private:
  os::NetworkIdentity identity_;
  os::UniqueFd routes_;
};

// Unconnected, non-blocking.
struct OutboundSocket {
  os::UniqueFd socket;
  std::shared_ptr<const OutboundNetwork> network;  // shared by the sockets that came with it
};

struct OutboundBatch {
  os::NetworkIdentity network;
  os::UniqueFd routes;
  std::vector<os::UniqueFd> sockets;
};

// Sockets of the namespace as they are wanted. They are made some at a time, since a process is
// cloned for it, and what is left over is kept while the namespace is the same. Thread-safe.
class OutboundSockets {
public:
  // Makes sockets; blocks, on any thread. Throws what has a text for a person.
  using Open = std::function<OutboundBatch(OutboundKind)>;
  // The namespace that has the name now. Does not block; any thread.
  using FindPresent = std::function<std::optional<os::NetworkIdentity>()>;
  OutboundSockets(Open open, FindPresent find_present)
      : open_(std::move(open)), find_present_(std::move(find_present)) {}

  // One that is there already.
  std::optional<OutboundSocket> try_take(OutboundKind kind);
  // Blocks where more have to be made. Throws what Open throws.
  OutboundSocket take(OutboundKind kind);

  [[nodiscard]] std::optional<os::NetworkIdentity> find_present() const { return find_present_(); }
  // Lets go of sockets whose namespace is not that of the name any more: they would keep it alive.
  void drop_stale();

private:
  struct Shelf {
    std::mutex opening;  // held while some are made, so that others who want one wait for those
    std::vector<OutboundSocket> sockets;
  };
  Shelf& shelf(OutboundKind kind) { return shelves_[static_cast<std::size_t>(kind)]; }
  // All of a shelf, where their namespace is not the present one; closed with the result.
  std::vector<OutboundSocket> take_stale(Shelf& shelf);

  Open open_;
  FindPresent find_present_;
  std::mutex mutex_;  // guards the sockets of all shelves
  std::array<Shelf, 4> shelves_;
};

using OutboundResult = std::expected<OutboundSocket, std::string>;

// take(), on `pool` where it would block. Resumes on `executor`, on which it is awaited, at the
// latest at `until`. The error is a text for a person.
boost::asio::awaitable<OutboundResult> take_outbound(std::shared_ptr<OutboundSockets> sockets,
                                                     OutboundKind kind,
                                                     boost::asio::any_io_executor executor,
                                                     boost::asio::thread_pool& pool,
                                                     std::chrono::steady_clock::time_point until);

}  // namespace daiv::proxy
