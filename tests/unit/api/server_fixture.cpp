#include "server_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>

#include "wire/ascii.hpp"

namespace daiv::api::test {
namespace {

namespace asio = boost::asio;

void limit_reads(int fd) {
  const timeval limit{10, 0};
  ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

}  // namespace

Client::Client(std::uint16_t port) {
  socket_.connect(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port));
  limit_reads(socket_.native_handle());
}

Client::Client(const std::string& unix_socket) {
  socket_.connect(asio::local::stream_protocol::endpoint(unix_socket));
  limit_reads(socket_.native_handle());
}

bool Client::send(std::string_view bytes) {
  boost::system::error_code error;
  asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), error);
  return !error;
}

bool Client::fill() {
  std::array<char, 65536> piece{};
  // recv(2) and not Asio's read_some, which would wait past SO_RCVTIMEO.
  const ssize_t got = ::recv(socket_.native_handle(), piece.data(), piece.size(), 0);
  if (got < 0 && errno == EAGAIN) ADD_FAILURE() << "nothing came for ten seconds";
  if (got > 0) buffer_.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0;
}

std::string Client::take(std::size_t size) {
  while (buffer_.size() < size && fill()) {
  }
  std::string out = buffer_.substr(0, size);
  buffer_.erase(0, out.size());
  return out;
}

std::string Client::take_line() {
  while (!buffer_.contains("\r\n") && fill()) {
  }
  const std::size_t end = buffer_.find("\r\n");
  if (end == std::string::npos) return {};
  std::string line = take(end);
  take(2);
  return line;
}

Answer Client::read(bool head_only) {
  Answer answer;
  const std::string status = take_line();
  if (status.empty()) return answer;
  answer.status = std::stoi(status.substr(9, 3));
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(": ");
    answer.fields[wire::lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  if (head_only || answer.status == 100) return answer;
  if (answer.fields.contains("transfer-encoding")) {
    for (;;) {
      const std::size_t size = std::stoul(take_line(), nullptr, 16);
      answer.body += take(size);
      take_line();
      if (size == 0) return answer;
    }
  }
  const auto length = answer.fields.find("content-length");
  if (length != answer.fields.end()) answer.body = take(std::stoul(length->second));
  return answer;
}

std::string Client::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, "");
}

std::string request(std::string_view method, std::string_view path, std::string_view body,
                    std::string_view more_fields) {
  std::string out = std::string(method) + " " + std::string(path) +
                    " HTTP/1.1\r\nHost: test\r\nX-API-Key: key\r\n";
  out += more_fields;
  if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + std::string(body);
}

std::string json_request(std::string_view path, std::string_view body) {
  return request("POST", path, body, "Content-Type: application/json\r\n");
}

ServerTest::ServerTest() {
  settings.api_key = "key";
  settings.version = "v1.2.3";
  settings.host = "127.0.0.1";
  settings.port = 0;
  service.sessions = {"s"};
}

void ServerTest::start() {
  server_ = std::make_unique<Server>(settings, service, io_.get_executor(), pool_);
  port = server_->port();
  asio::co_spawn(io_, server_->run(), [this](const std::exception_ptr& error) {
    if (error) {
      ended_.set_exception(error);
    } else {
      ended_.set_value();
    }
  });
  thread_ = std::thread([this] { io_.run(); });
}

void ServerTest::on_server(const std::function<void()>& call) {
  std::promise<void> done;
  asio::post(io_, [&call, &done] {
    call();
    done.set_value();
  });
  done.get_future().wait();
}

void ServerTest::wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool met = false;
  while (!met && std::chrono::steady_clock::now() < deadline) {
    on_server([&met, &condition] { met = condition(); });
    std::this_thread::yield();
  }
  ASSERT_TRUE(met);
}

void ServerTest::stop() {
  on_server([this] { server_->stop(); });
}

void ServerTest::join() {
  ended_.get_future().get();
  thread_.join();
}

ServerTest::~ServerTest() {
  if (!thread_.joinable()) return;
  settings.timeouts.drain = std::chrono::milliseconds(0);
  asio::post(io_, [this] { server_->stop(); });
  join();
}

}  // namespace daiv::api::test
