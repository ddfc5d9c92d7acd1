#include "os/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

int type_of(SocketKind kind) {
  return (kind == SocketKind::stream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC;
}

struct Address {
  sockaddr_un value{};
  UniqueFd directory;  // keeps /proc/self/fd/N valid while the address is in use
};

// sun_path holds 107 bytes; a longer path is reached through its directory's descriptor.
Address address_of(const std::string& path) {
  Address address;
  address.value.sun_family = AF_UNIX;
  std::string name = path;
  if (name.size() >= sizeof address.value.sun_path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) throw Error(ENAMETOOLONG, "unix socket", path);
    address.directory = open_file(path.substr(0, slash + 1), O_PATH | O_DIRECTORY);
    name = fmt::format("/proc/self/fd/{}/{}", address.directory.get(), path.substr(slash + 1));
  }
  if (name.size() >= sizeof address.value.sun_path) throw Error(ENAMETOOLONG, "unix socket", path);
  std::memcpy(address.value.sun_path, name.c_str(), name.size() + 1);
  return address;
}

void attach(msghdr& message, std::span<char> control, std::span<const int> fds) {
  if (fds.empty()) return;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

std::vector<UniqueFd> detach(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + index * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * max_fds_per_message);

}  // namespace

std::pair<UniqueFd, UniqueFd> make_socket_pair(SocketKind kind) {
  std::array<int, 2> fds{};
  check(::socketpair(AF_UNIX, type_of(kind), 0, fds.data()), "socketpair", "unix");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

UniqueFd listen_unix(const std::string& path, SocketKind kind, int backlog) {
  UniqueFd socket(check(::socket(AF_UNIX, type_of(kind), 0), "socket", path));
  const Address address = address_of(path);
  check(
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), sizeof address.value),
      "bind", path);
  check(::listen(socket.get(), backlog), "listen", path);
  return socket;
}

UniqueFd connect_unix(const std::string& path, SocketKind kind) {
  UniqueFd socket(check(::socket(AF_UNIX, type_of(kind), 0), "socket", path));
  const Address address = address_of(path);
  check(retry_eintr([&] {
          return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value),
                           sizeof address.value);
        }),
        "connect", path);
  return socket;
}

std::optional<UniqueFd> try_connect_unix(const std::string& path, SocketKind kind) {
  UniqueFd socket(check(::socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0), "socket", path));
  const Address address = address_of(path);
  const int result = retry_eintr([&] {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value),
                     sizeof address.value);
  });
  if (result < 0 && errno == EAGAIN) return std::nullopt;
  check(result, "connect", path);
  return socket;
}

UniqueFd accept_connection(const UniqueFd& listener) {
  return UniqueFd(
      check(retry_eintr([&] { return ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC); }),
            "accept4", "listener"));
}

void send_message(const UniqueFd& socket, std::string_view data, std::span<const int> fds) {
  if (fds.size() > max_fds_per_message) throw Error(EINVAL, "sendmsg", "too many descriptors");
  alignas(cmsghdr) std::array<char, control_bytes> control{};
  iovec part{const_cast<char*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  attach(message, control, fds);
  auto sent = check(retry_eintr([&] { return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL); }),
                    "sendmsg", "unix socket");
  data.remove_prefix(static_cast<std::size_t>(sent));
  while (!data.empty()) {  // a stream socket may take less at once; the descriptors went with the
                           // first bytes
    sent = check(
        retry_eintr([&] { return ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL); }),
        "send", "unix socket");
    data.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::optional<Message> receive_message(const UniqueFd& socket, std::size_t max_bytes) {
  alignas(cmsghdr) std::array<char, control_bytes> control{};
  Message received;
  // Not filled: untouched pages cost nothing, and most messages are short.
  const auto buffer = std::make_unique_for_overwrite<char[]>(max_bytes);
  iovec part{buffer.get(), max_bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const auto count =
      check(retry_eintr([&] { return ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC); }),
            "recvmsg", "unix socket");
  received.fds = detach(message);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    throw Error(EMSGSIZE, "recvmsg", "unix socket");
  if (count == 0) return std::nullopt;
  received.data.assign(buffer.get(), static_cast<std::size_t>(count));
  return received;
}

PeerCredentials peer_credentials(const UniqueFd& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  check(::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size),
        "getsockopt SO_PEERCRED", "unix socket");
  return {credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace daiv::os
