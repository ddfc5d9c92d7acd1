#include "os/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

TEST(Message, CarriesDescriptorsThatAreCloseOnExec) {
  auto [left, right] = make_socket_pair(SocketKind::seqpacket);
  const Pipe pipe = make_pipe();
  const std::array<int, 1> fds{pipe.write_end.get()};
  send_message(left, "hello", fds);
  auto message = receive_message(right, 100);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->data, "hello");
  ASSERT_EQ(message->fds.size(), 1U);
  EXPECT_EQ(::fcntl(message->fds[0].get(), F_GETFD), FD_CLOEXEC);
  write_full(message->fds[0], "through");
  std::array<std::byte, 7> buffer{};
  EXPECT_EQ(read_full(pipe.read_end, buffer), 7U);
}

TEST(Message, LongerThanAllowedIsRefused) {
  auto [left, right] = make_socket_pair(SocketKind::seqpacket);
  send_message(left, "0123456789");
  EXPECT_THROW(receive_message(right, 9), Error);
}

TEST(Message, EndOfStreamIsAValue) {
  auto [left, right] = make_socket_pair(SocketKind::stream);
  left.reset();
  EXPECT_FALSE(receive_message(right, 9));
}

TEST(UnixSocket, PathsLongerThanSunPathWork) {
  std::string directory = testing::TempDir() + "/socket-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string deep = directory + "/" + std::string(120, 'd');
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  const UniqueFd listener = listen_unix(deep + "/s", SocketKind::stream, 1);
  const UniqueFd client = connect_unix(deep + "/s", SocketKind::stream);
  const UniqueFd server = accept_connection(listener);
  EXPECT_EQ(peer_credentials(server).pid, ::getpid());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace daiv::os
