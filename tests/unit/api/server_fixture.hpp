#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "api/server.hpp"
#include "fake_service.hpp"

namespace daiv::api::test {

struct Answer {
  int status = 0;  // 0: the connection ended instead
  std::map<std::string, std::string> fields;
  std::string body;
};

// A blocking client; every read fails after ten seconds.
class Client {
public:
  explicit Client(std::uint16_t port);
  explicit Client(const std::string& unix_socket);

  // False where the server has closed the connection.
  bool send(std::string_view bytes);
  // The next answer; with `head_only` without a body, as to HEAD.
  Answer read(bool head_only = false);
  // What comes until the server closes the connection.
  std::string read_to_end();
  void close() { socket_.close(); }

private:
  bool fill();
  std::string take_line();
  std::string take(std::size_t size);

  boost::asio::io_context io_;
  boost::asio::generic::stream_protocol::socket socket_{io_};
  std::string buffer_;
};

std::string request(std::string_view method, std::string_view path, std::string_view body = "",
                    std::string_view more_fields = "");
std::string json_request(std::string_view path, std::string_view body);

// A server on loopback over a FakeService, on a thread of its own. The key is "key".
class ServerTest : public ::testing::Test {
protected:
  ServerTest();
  ~ServerTest() override;

  void start();
  void stop();  // asks the server to stop
  void join();  // waits until it has
  void on_server(
      const std::function<void()>& call);  // runs `call` on the server's thread and waits
  void wait_until(const std::function<bool()>& condition);  // asked on the server's thread

  ServerSettings settings;
  FakeService service;
  std::uint16_t port = 0;

private:
  boost::asio::io_context io_{1};
  boost::asio::thread_pool pool_{2};
  std::unique_ptr<Server> server_;
  std::thread thread_;
  std::promise<void> ended_;
};

}  // namespace daiv::api::test
