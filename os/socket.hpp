#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"

// Unix sockets that carry descriptors (unix(7), sendmsg(2)). All descriptors made or received are
// close-on-exec.
namespace daiv::os {

enum class SocketKind { stream, seqpacket };

// A connected pair (socketpair(2)).
std::pair<UniqueFd, UniqueFd> make_socket_pair(SocketKind kind);

// Binds `path` and listens. An existing socket at `path` is an error (EADDRINUSE). Paths longer
// than sun_path (107 bytes) work: the socket is bound through /proc/self/fd of its directory.
UniqueFd listen_unix(const std::string& path, SocketKind kind, int backlog);

// Connects; blocks only while the peer's backlog is full.
UniqueFd connect_unix(const std::string& path, SocketKind kind);

// Connects without ever blocking; the socket is non-blocking. Empty while the peer's backlog is
// full (connect(2), EAGAIN for unix sockets): try again later.
std::optional<UniqueFd> try_connect_unix(const std::string& path, SocketKind kind);

// accept4(2); retries EINTR.
UniqueFd accept_connection(const UniqueFd& listener);

// Sends one message with `fds` attached (at most max_fds_per_message). On a stream socket `data`
// must not be empty. MSG_NOSIGNAL: a gone peer is os::Error{EPIPE}.
inline constexpr std::size_t max_fds_per_message = 16;
void send_message(const UniqueFd& socket, std::string_view data, std::span<const int> fds = {});

// One received message (seqpacket) or chunk (stream).
struct Message {
  std::string data;
  std::vector<UniqueFd> fds;
};

// Receives one message of at most `max_bytes`; empty optional at the end of the stream. A message
// that is longer, or that carries more descriptors than fit, is os::Error{EMSGSIZE}: nothing of it
// is used.
std::optional<Message> receive_message(const UniqueFd& socket, std::size_t max_bytes);

// The peer's credentials when it connected (SO_PEERCRED).
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
PeerCredentials peer_credentials(const UniqueFd& socket);

}  // namespace daiv::os
