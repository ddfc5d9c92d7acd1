#include "os/service_manager.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "os/error.hpp"
#include "os/socket.hpp"

namespace daiv::os {
namespace {

// Descriptors 3 and up, and the environment, belong to the test program: each case has a process
// of its own. Returns its exit code.
int in_child(const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(act());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void pass(int count, const char* names, pid_t pid) {
  ::setenv("LISTEN_FDS", std::to_string(count).c_str(), 1);
  ::setenv("LISTEN_PID", std::to_string(pid).c_str(), 1);
  ::setenv("LISTEN_FDNAMES", names, 1);
}

// A socket as descriptor `number`, inherited as a manager's are.
void open_socket_at(int number) {
  const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (made != number) {
    ::dup2(made, number);
    ::close(made);
  }
}

TEST(PassedSockets, AreTakenOnceWithTheirNames) {
  EXPECT_EQ(0, in_child([] {
              open_socket_at(3);
              open_socket_at(4);
              pass(2, "api:https", ::getpid());
              const auto sockets = take_passed_sockets();
              if (sockets.size() != 2 || sockets[0].name != "api" || sockets[1].name != "https")
                return 1;
              if (::fcntl(4, F_GETFD) != FD_CLOEXEC) return 2;
              if (std::getenv("LISTEN_FDS") != nullptr) return 3;
              return take_passed_sockets().empty() ? 0 : 4;
            }));
}

TEST(PassedSockets, OfAnotherProcessAreNotTaken) {
  EXPECT_EQ(0, in_child([] {
              open_socket_at(3);
              pass(1, "api", ::getpid() + 1);
              const bool none = take_passed_sockets().empty();
              return none && ::fcntl(3, F_GETFD) == 0 ? 0 : 1;
            }));
}

TEST(PassedSockets, MayHaveNoNames) {
  EXPECT_EQ(0, in_child([] {
              open_socket_at(3);
              pass(1, "", ::getpid());
              ::unsetenv("LISTEN_FDNAMES");
              const auto sockets = take_passed_sockets();
              return sockets.size() == 1 && sockets[0].name.empty() ? 0 : 1;
            }));
}

TEST(PassedSockets, ThatAreNotThereAreAnError) {
  EXPECT_EQ(9, in_child([] {
              ::close(3);
              pass(1, "api", ::getpid());
              try {
                take_passed_sockets();
              } catch (const Error& error) {
                return error.error_number() == EBADF ? 9 : 1;
              }
              return 2;
            }));
}

TEST(PassedSockets, CountThatIsNoNumberIsAnError) {
  EXPECT_EQ(9, in_child([] {
              pass(1, "", ::getpid());
              ::setenv("LISTEN_FDS", "1x", 1);
              try {
                take_passed_sockets();
              } catch (const Error&) {
                return 9;
              }
              return 1;
            }));
}

// A manager's end, bound to `address` ("@" for the abstract namespace).
UniqueFd bind_manager(const std::string& address) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.data(), address.size());
  if (address.front() == '@') name.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), size), "bind", address);
  return socket;
}

std::string heard(const UniqueFd& manager) {
  std::array<char, 256> buffer{};
  const ssize_t size = ::recv(manager.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  return size < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(size));
}

TEST(Notify, ReachesAManagerByPathAndByAbstractName) {
  std::string directory = "/tmp/daiv-notify-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  for (const std::string& address :
       {directory + "/notify", fmt::format("@daiv-notify-{}", ::getpid())}) {
    const UniqueFd manager = bind_manager(address);
    ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
    notify_manager("READY=1\nSTATUS=serving");
    EXPECT_EQ(heard(manager), "READY=1\nSTATUS=serving");
  }
  ::unsetenv("NOTIFY_SOCKET");
  ::unlink((directory + "/notify").c_str());
  ::rmdir(directory.c_str());
}

TEST(Notify, WithoutAManagerDoesNothing) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_NO_THROW(notify_manager("READY=1"));
}

TEST(Notify, ManagerThatIsGoneIsAnError) {
  ::setenv("NOTIFY_SOCKET", "/tmp/daiv-no-manager", 1);
  EXPECT_THROW(notify_manager("READY=1"), Error);
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(Watchdog, IsOfThisProcessAlone) {
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(find_watchdog_limit(), std::chrono::seconds(30));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(find_watchdog_limit());
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_FALSE(find_watchdog_limit());
}

TEST(Watchdog, IsFedThreeTimesInItsLimitAndNoMoreOften) {
  const std::string address = fmt::format("@daiv-watchdog-{}", ::getpid());
  const UniqueFd manager = bind_manager(address);
  ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "3600000000", 1);
  Watchdog watchdog;
  EXPECT_GT(watchdog.feed(), std::chrono::minutes(19));
  EXPECT_EQ(heard(manager), "WATCHDOG=1");
  EXPECT_LE(watchdog.feed(), std::chrono::minutes(20));
  EXPECT_EQ(heard(manager), "");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_GE(Watchdog().feed(), std::chrono::minutes(1));
  EXPECT_EQ(heard(manager), "");
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(Watchdog, WithoutAManagerIsNoError) {
  ::setenv("NOTIFY_SOCKET", "/tmp/daiv-no-manager", 1);
  ::setenv("WATCHDOG_USEC", "3000", 1);
  EXPECT_LE(Watchdog().feed(), std::chrono::milliseconds(1));
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace daiv::os
