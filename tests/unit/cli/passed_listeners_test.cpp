#include "cli/passed_listeners.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "os/error.hpp"

namespace daiv::cli {
namespace {

using testing::HasSubstr;

struct Listener {
  os::PassedSocket passed;
  std::string port;
};

Listener listen_on(const char* address, const std::string& name = "") {
  os::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &at.sin_addr);
  socklen_t size = sizeof at;
  os::check(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size), "bind", address);
  os::check(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size), "getsockname",
            address);
  return {{std::move(socket), name}, std::to_string(ntohs(at.sin_port))};
}

std::vector<std::string> conflicts(Listener listener, std::vector<std::string> environment) {
  SettingSources sources;
  sources.environment = std::move(environment);
  sources.secrets_dir.clear();
  sources.credential_store = "/nonexistent";
  sources.settings_file = "/nonexistent";
  std::vector<os::PassedSocket> sockets;
  sockets.push_back(std::move(listener.passed));
  return find_listener_conflicts(load_settings(sources), sockets);
}

TEST(PassedListeners, AreTakenAsTheyAreWhereNothingElseIsSet) {
  EXPECT_TRUE(conflicts(listen_on("127.0.0.1"), {}).empty());
}

TEST(PassedListeners, MayBeWhatTheSettingsSay) {
  Listener listener = listen_on("127.0.0.1");
  const std::string port = "DAIV_SANDBOX_PORT=" + listener.port;
  EXPECT_TRUE(conflicts(std::move(listener), {"DAIV_SANDBOX_HOST=127.0.0.1", port}).empty());
  EXPECT_TRUE(conflicts(listen_on("0.0.0.0"), {"DAIV_SANDBOX_HOST=::"}).empty());
}

TEST(PassedListeners, AreRefusedWhereAnotherAddressOrPortIsSet) {
  const auto host = conflicts(listen_on("0.0.0.0"), {"DAIV_SANDBOX_HOST=127.0.0.1"});
  ASSERT_EQ(host.size(), 1U);
  EXPECT_THAT(host[0], HasSubstr("DAIV_SANDBOX_HOST=127.0.0.1, but the socket unit listens on"));
  EXPECT_EQ(conflicts(listen_on("127.0.0.1"), {"DAIV_SANDBOX_PORT=1"}).size(), 1U);
}

TEST(PassedListeners, CalledHttpsNeedACertificate) {
  EXPECT_EQ(conflicts(listen_on("127.0.0.1", "https"), {}).size(), 1U);
  EXPECT_TRUE(
      conflicts(listen_on("127.0.0.1", "https"), {"DAIV_SANDBOX_TLS_CERT_FILE=/c"}).empty());
}

}  // namespace
}  // namespace daiv::cli
