#include "os/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

constexpr int first_passed_fd = 3;  // SD_LISTEN_FDS_START
constexpr int max_passed_fds = 64;
constexpr int notices_per_limit = 3;

std::optional<std::uint64_t> find_number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const char* end = text + std::strlen(text);
  std::uint64_t value = 0;
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stopped != end) throw Error(EINVAL, "environment", variable);
  return value;
}

bool is_own_pid(std::uint64_t pid) { return pid == static_cast<std::uint64_t>(::getpid()); }

// "a:b:c"; names hold no colon (systemd.socket(5), FileDescriptorName=).
std::string name_at(std::string_view names, int index) {
  for (; index > 0; --index) {
    const auto colon = names.find(':');
    if (colon == std::string_view::npos) return {};
    names.remove_prefix(colon + 1);
  }
  return std::string(names.substr(0, names.find(':')));
}

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;
};

// A path, or "@name" in the abstract namespace (unix(7)).
Address notify_address(const char* text) {
  Address address;
  address.value.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(text);
  if ((text[0] != '/' && text[0] != '@') || length >= sizeof address.value.sun_path)
    throw Error(EINVAL, "environment", "NOTIFY_SOCKET");
  std::memcpy(address.value.sun_path, text, length);
  if (text[0] == '@') address.value.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  return address;
}

}  // namespace

std::vector<PassedSocket> take_passed_sockets() {
  const auto pid = find_number("LISTEN_PID");
  const auto count = find_number("LISTEN_FDS");
  const char* given = std::getenv("LISTEN_FDNAMES");
  const std::string names = given != nullptr ? given : "";
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  if (!pid || !count || !is_own_pid(*pid)) return {};
  if (*count > max_passed_fds) throw Error(E2BIG, "environment", "LISTEN_FDS");
  std::vector<PassedSocket> sockets;
  for (int index = 0; index < static_cast<int>(*count); ++index) {
    UniqueFd socket(first_passed_fd + index);
    set_inherit(socket, Inherit::no);  // EBADF: the manager counted wrong
    sockets.push_back({std::move(socket), name_at(names, index)});
  }
  return sockets;
}

void notify_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  const Address address = notify_address(path);
  const UniqueFd socket(
      check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket", "NOTIFY_SOCKET"));
  check(retry_eintr([&] {
          return ::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                          reinterpret_cast<const sockaddr*>(&address.value), address.size);
        }),
        "sendto", path);
}

std::optional<std::chrono::microseconds> find_watchdog_limit() {
  const auto limit = find_number("WATCHDOG_USEC");
  const auto pid = find_number("WATCHDOG_PID");
  if (!limit || *limit == 0 || (pid && !is_own_pid(*pid))) return std::nullopt;
  return std::chrono::microseconds(*limit);
}

std::chrono::milliseconds Watchdog::feed() noexcept {
  if (!limit_) return std::chrono::hours(1);
  const auto now = std::chrono::steady_clock::now();
  if (now >= due_) {
    due_ = now + *limit_ / notices_per_limit;
    try {
      notify_manager("WATCHDOG=1");
    } catch (const Error&) {
    }
  }
  return std::chrono::ceil<std::chrono::milliseconds>(due_ - now);
}

}  // namespace daiv::os
