#include "fake_server.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "os/error.hpp"
#include "wire/ascii.hpp"

namespace daiv::images::test {
namespace {

constexpr char tls_handshake = 0x16;  // the first byte of a ClientHello's record (RFC 8446 §5.1)

bool send_all(int socket, std::string_view data) {
  while (!data.empty()) {
    const auto sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Reads a request from `socket`, of which `buffer` holds what came already.
std::optional<FakeRequest> read_request(int socket, std::string& buffer) {
  const auto more = [&] {
    char chunk[4096];
    const auto got = ::recv(socket, chunk, sizeof chunk, 0);
    if (got > 0) buffer.append(chunk, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more() || buffer.front() == tls_handshake) return std::nullopt;
  }
  FakeRequest request;
  std::string head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  const auto line = head.substr(0, head.find("\r\n"));
  head.erase(0, line.size() + 2);
  request.method = line.substr(0, line.find(' '));
  request.target =
      line.substr(request.method.size() + 1, line.rfind(' ') - request.method.size() - 1);
  while (!head.empty()) {
    const auto field = head.substr(0, head.find("\r\n"));
    head.erase(0, field.size() + 2);
    const auto colon = field.find(": ");
    if (colon != std::string::npos)
      request.fields[wire::lower(field.substr(0, colon))] = field.substr(colon + 2);
  }
  const std::string length_text = request.field("content-length");
  std::size_t length = 0;
  std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
  while (buffer.size() < length) {
    if (!more()) return std::nullopt;
  }
  request.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return request;
}

}  // namespace

std::string FakeRequest::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string() : found->second;
}

FakeServer::FakeServer(Handler handler)
    : handler_(std::move(handler)),
      listener_(
          os::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket", "fake server")) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  os::check(::bind(listener_.get(), generic, length), "bind", "loopback");
  os::check(::listen(listener_.get(), 64), "listen", "loopback");
  os::check(::getsockname(listener_.get(), generic, &length), "getsockname", "loopback");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
  }
  for (auto& thread : threads_) thread.join();
}

std::string FakeServer::authority() const { return fmt::format("127.0.0.1:{}", port_); }

std::vector<FakeRequest> FakeServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<FakeRequest> FakeServer::requests(const std::string& part) const {
  auto all = requests();
  std::erase_if(all, [&](const FakeRequest& request) { return !request.target.contains(part); });
  return all;
}

void FakeServer::accept_all() {
  for (;;) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    ++connections_;
    const std::lock_guard lock(mutex_);
    sockets_.emplace_back(socket);
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void FakeServer::serve(int socket) {
  // Head and body are two sends: without this the second one waits for a delayed acknowledgement
  // (tcp(7)).
  const int on = 1;
  static_cast<void>(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  std::string buffer;
  while (!stopping_) {
    auto request = read_request(socket, buffer);
    if (!request) break;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    if (!answer(socket, *request)) break;
  }
  ::shutdown(socket, SHUT_RDWR);
}

// Whether the connection is good for another request.
bool FakeServer::answer(int socket, const FakeRequest& request) {
  const auto response = handler_(request);
  const bool chunked = response.ending == FakeResponse::Ending::chunked;
  std::string head = fmt::format("HTTP/1.1 {} Whatever\r\n", response.status);
  for (const auto& [name, value] : response.fields) head += fmt::format("{}: {}\r\n", name, value);
  if (chunked) {
    head += "Transfer-Encoding: chunked\r\n";
  } else {
    head += fmt::format("Content-Length: {}\r\n",
                        response.declared_length.value_or(response.body.size()));
  }
  if (!send_all(socket, head + "\r\n")) return false;
  if (request.method == "HEAD") return true;
  const auto body =
      std::string_view(response.body).substr(0, response.cut_after.value_or(std::string::npos));
  if (chunked) return send_all(socket, fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body));
  if (!send_all(socket, body)) return false;
  if (response.ending == FakeResponse::Ending::stall) {
    char byte = 0;
    static_cast<void>(::recv(socket, &byte, 1, 0));  // until the client or the test gives up
    return false;
  }
  return !response.cut_after && !response.declared_length;
}

}  // namespace daiv::images::test
