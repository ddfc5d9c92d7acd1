#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/control_client.hpp"
#include "cli/control_server.hpp"
#include "cli/tar_stream.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ControlTest : testing::Test {
  ControlTest() {
    std::string name = (fs::temp_directory_path() / "daiv-control.XXXXXX").string();
    directory = ::mkdtemp(name.data());
    fs::create_directory(fs::path(control_socket_path(directory)).parent_path());
  }
  ~ControlTest() override {
    server.reset();
    fs::remove_all(directory);
  }
  void serve(ControlHandler handler, uid_t own_uid = ::getuid()) {
    server = std::make_unique<ControlServer>(
        os::listen_unix(control_socket_path(directory), os::SocketKind::seqpacket, 4), own_uid,
        std::move(handler));
  }
  [[nodiscard]] os::UniqueFd connect() const { return std::move(*connect_to_daemon(directory)); }

  std::string directory;
  std::unique_ptr<ControlServer> server;
};

TEST_F(ControlTest, CarriesARequestItsEventsItsOutputAndItsEnd) {
  serve([](const os::UniqueFd& client, const json& request, const std::vector<os::UniqueFd>&) {
    send_json(client, {{"event", "half"}});
    send_output(client, std::string("raw\0\xff", 5));
    return json{{"echo", request.at("command")}};
  });
  std::string output;
  int events = 0;
  const json end = ask_daemon(connect(), {{"command", "x"}},
                              {.event = [&](const json&) { ++events; },
                               .output = [&](std::string_view bytes) { output += bytes; }});
  EXPECT_EQ(end.at("echo"), "x");
  EXPECT_EQ(events, 1);
  EXPECT_EQ(output, std::string("raw\0\xff", 5));
}

TEST_F(ControlTest, PassesDescriptors) {
  serve([](const os::UniqueFd&, const json&, const std::vector<os::UniqueFd>& fds) {
    return json(os::read_all(fds.at(0), 100));
  });
  os::Pipe other = os::make_pipe();
  os::write_full(other.write_end, "content");
  other.write_end.reset();
  EXPECT_EQ(ask_daemon(connect(), {{"command", "load"}}, {}, {other.read_end.get()}), "content");
}

TEST_F(ControlTest, AFailureBringsItsTextAndExitCode) {
  serve([](const os::UniqueFd&, const json&, const std::vector<os::UniqueFd>&) -> json {
    throw ControlFailure(exit_not_found, "no such thing");
  });
  try {
    ask_daemon(connect(), {{"command", "x"}});
    FAIL();
  } catch (const ControlFailure& error) {
    EXPECT_EQ(error.code(), exit_not_found);
    EXPECT_STREQ(error.what(), "no such thing");
  }
}

TEST_F(ControlTest, GarbageEndsOneConnectionOnly) {
  serve([](const os::UniqueFd&, const json&, const std::vector<os::UniqueFd>&) { return json(1); });
  for (const std::string garbage : {"J{", "J[1]", "X", "B", "Jnull"}) {
    const os::UniqueFd client = connect();
    os::send_message(client, garbage);
    try {
      while (receive_control(client)) {
      }
    } catch (const os::Error&) {  // reset: a message of ours was left unread
    }
  }
  EXPECT_EQ(ask_daemon(connect(), {{"command", "x"}}), 1);
}

TEST_F(ControlTest, OnlyRootAndTheDaemonsUserAreServed) {
  if (::getuid() == 0) GTEST_SKIP() << "root is always served";
  serve([](const os::UniqueFd&, const json&, const std::vector<os::UniqueFd>&) { return json(1); },
        ::getuid() + 1);
  EXPECT_THROW(ask_daemon(connect(), {{"command", "x"}}), ControlFailure);
}

TEST_F(ControlTest, NoDaemonIsAnEmptyAnswer) { EXPECT_FALSE(connect_to_daemon(directory)); }

TEST_F(ControlTest, ClosingEndsConnectionsThatSayNothing) {
  serve([](const os::UniqueFd&, const json&, const std::vector<os::UniqueFd>&) { return json(1); });
  const os::UniqueFd silent = connect();
  server->close();
  EXPECT_FALSE(receive_control(silent));
}

TEST_F(ControlTest, ATarOfADirectoryIsReadBackByTar) {
  const std::string layout = directory + "/layout";
  const std::string copy = directory + "/copy";
  const std::string deep(120, 'd');
  fs::create_directories(layout + "/blobs/sha256/" + deep);
  fs::create_directories(copy);
  std::ofstream(layout + "/index.json") << "{}";
  std::ofstream(layout + "/blobs/sha256/" + deep + "/" + std::string(150, 'n'))
      << std::string(100000, 'x');
  {
    const os::UniqueFd archive =
        os::open_file(directory + "/layout.tar", O_WRONLY | O_CREAT | O_EXCL, 0600);
    write_tar(layout, archive);
  }
  ASSERT_EQ(std::system(("tar -xf " + directory + "/layout.tar -C " + copy).c_str()), 0);
  EXPECT_EQ(std::system(("diff -r " + layout + " " + copy).c_str()), 0);
}

}  // namespace
}  // namespace daiv::cli
