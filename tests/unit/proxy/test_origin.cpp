#include "test_origin.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "os/error.hpp"
#include "proxy/detail/leaf.hpp"

namespace daiv::proxy::testing {
namespace {

constexpr timeval receive_limit{20, 0};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void* protocols) {
  const auto& known = *static_cast<const std::string*>(protocols);
  unsigned char* chosen = nullptr;
  const int outcome = ::SSL_select_next_proto(
      &chosen, out_size, reinterpret_cast<const unsigned char*>(known.data()),
      static_cast<unsigned>(known.size()), offered, offered_size);
  *out = chosen;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

SslContextPtr make_context(const Leaf& leaf) {
  SslContextPtr context(::SSL_CTX_new(::TLS_server_method()));
  ::SSL_CTX_use_certificate(context.get(), leaf.impl().certificate.get());
  ::SSL_CTX_use_PrivateKey(context.get(), leaf.impl().key.get());
  return context;
}

std::size_t length_in(const std::string& head) {
  for (const char* name : {"\r\ncontent-length: ", "\r\nContent-Length: "}) {
    const auto at = head.find(name);
    if (at != std::string::npos) return std::stoul(head.substr(at + 18));
  }
  return 0;
}

}  // namespace

Peer::Peer(os::UniqueFd socket) : socket_(std::move(socket)) {
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &receive_limit, sizeof receive_limit);
}

bool Peer::accept_tls(SSL_CTX* context) {
  ssl_.reset(::SSL_new(context));
  ::SSL_set_fd(ssl_.get(), socket_.get());
  if (::SSL_accept(ssl_.get()) == 1) return true;
  ssl_.reset();
  return false;
}

bool Peer::connect_tls(const TlsOptions& options) {
  context_.reset(::SSL_CTX_new(::TLS_client_method()));
  if (!options.roots_pem.empty()) {
    const BioPtr text(::BIO_new_mem_buf(options.roots_pem.data(), -1));
    const CertificatePtr root(::PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
    ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context_.get()), root.get());
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  ssl_.reset(::SSL_new(context_.get()));
  if (!options.verified.empty()) ::SSL_set1_host(ssl_.get(), options.verified.c_str());
  if (!options.name.empty())
    ::SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
               const_cast<char*>(options.name.c_str()));
  if (!options.alpn.empty()) {
    const std::string wire = static_cast<char>(options.alpn.size()) + options.alpn;
    ::SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(wire.data()),
                          static_cast<unsigned>(wire.size()));
  }
  if (options.resume != nullptr) ::SSL_set_session(ssl_.get(), options.resume);
  ::SSL_set_fd(ssl_.get(), socket_.get());
  if (::SSL_connect(ssl_.get()) == 1) return true;
  ssl_.reset();
  return false;
}

bool Peer::send(std::string_view data) {
  while (!data.empty()) {
    const auto count = ssl_ ? ::SSL_write(ssl_.get(), data.data(), static_cast<int>(data.size()))
                            : ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool Peer::fill() {
  std::string piece(65536, '\0');
  const auto count = ssl_ ? ::SSL_read(ssl_.get(), piece.data(), static_cast<int>(piece.size()))
                          : ::recv(socket_.get(), piece.data(), piece.size(), 0);
  if (count <= 0) return false;
  buffered_.append(piece, 0, static_cast<std::size_t>(count));
  return true;
}

std::string Peer::receive() {
  if (buffered_.empty()) fill();
  return std::exchange(buffered_, {});
}

std::string Peer::receive_until(std::string_view mark) {
  for (;;) {
    const auto at = buffered_.find(mark);
    if (at != std::string::npos) {
      const std::string taken = buffered_.substr(0, at + mark.size());
      buffered_.erase(0, taken.size());
      return taken;
    }
    if (!fill()) return std::exchange(buffered_, {});
  }
}

std::string Peer::receive_bytes(std::size_t count) {
  while (buffered_.size() < count && fill()) continue;
  const std::string taken = buffered_.substr(0, count);
  buffered_.erase(0, taken.size());
  return taken;
}

std::string Peer::receive_all() {
  while (fill()) continue;
  return std::exchange(buffered_, {});
}

bool Peer::at_end() { return buffered_.empty() && !fill(); }

void Peer::finish_sending() {
  if (ssl_) ::SSL_shutdown(ssl_.get());
  ::shutdown(socket_.get(), SHUT_WR);
}

void Peer::reset() {
  const linger now{1, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void Peer::close() {
  ssl_.reset();
  socket_.reset();
}

Peer::Message Peer::receive_message() {
  Message message;
  message.head = receive_until("\r\n\r\n");
  if (message.head.find("ransfer-Encoding: chunked") == std::string::npos) {
    message.body = receive_bytes(length_in(message.head));
    return message;
  }
  for (;;) {
    const std::string line = receive_until("\r\n");
    if (line.empty()) return message;
    const std::size_t size = std::stoul(line, nullptr, 16);
    if (size == 0) break;
    message.body += receive_bytes(size);
    receive_bytes(2);
  }
  // Trailers are shown behind the body.
  for (std::string line = receive_until("\r\n"); line.size() > 2; line = receive_until("\r\n"))
    message.body += "|" + line.substr(0, line.size() - 2);
  return message;
}

std::uint16_t port_of(const os::UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  os::check(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size),
            "getsockname", "test");
  return ntohs(address.sin_port);
}

os::UniqueFd listen_on_loopback() {
  os::UniqueFd socket(
      os::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket", "test"));
  const sockaddr_in address = loopback(0);
  os::check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            "bind", "test");
  os::check(::listen(socket.get(), 512), "listen", "test");
  return socket;
}

os::UniqueFd connect_to_loopback(std::uint16_t port) {
  os::UniqueFd socket(
      os::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket", "test"));
  const sockaddr_in address = loopback(port);
  os::check(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            "connect", "test");
  return socket;
}

TestOrigin::TestOrigin(Script script, const std::optional<Leaf>& leaf, std::string protocols)
    : script_(std::move(script)),
      protocols_(std::move(protocols)),
      context_(leaf ? make_context(*leaf) : nullptr),
      listener_(listen_on_loopback()),
      port_(port_of(listener_)),
      acceptor_([this] { accept(); }) {
  if (context_ && !protocols_.empty())
    ::SSL_CTX_set_alpn_select_cb(context_.get(), choose_protocol, &protocols_);
}

TestOrigin::~TestOrigin() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
}

void TestOrigin::accept() {
  for (;;) {
    os::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    ++connections_;
    auto serve = [this, socket = std::make_shared<os::UniqueFd>(std::move(socket))] {
      Peer peer(std::move(*socket));
      if (!context_ || peer.accept_tls(context_.get())) script_(peer);
    };
    threads_.emplace_back(std::move(serve));
  }
}

void echo(Peer& peer) {
  for (;;) {
    const auto message = peer.receive_message();
    if (message.head.empty()) return;
    const std::string body = message.head + message.body;
    const bool is_head = message.head.starts_with("HEAD ");
    const std::string head =
        fmt::format("HTTP/1.1 200 OK\r\nX-Origin: yes\r\nContent-Length: {}\r\n\r\n", body.size());
    if (!peer.send(is_head ? head : head + body)) return;
  }
}

}  // namespace daiv::proxy::testing
