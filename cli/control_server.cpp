#include "cli/control_server.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>

#include "os/error.hpp"
#include "os/socket.hpp"

namespace daiv::cli {
namespace {

constexpr std::size_t max_connections = 64;

nlohmann::json failure(ExitCode code, const std::string& text) {
  return {{"error", text}, {"exit", code}};
}

}  // namespace

struct ControlServer::Connection {
  os::UniqueFd socket;
  std::atomic<bool> finished = false;
  std::thread thread;
};

ControlServer::ControlServer(os::UniqueFd listener, uid_t own_uid, ControlHandler handler)
    : listener_(std::move(listener)),
      own_uid_(own_uid),
      handler_(std::move(handler)),
      acceptor_([this] { accept_connections(); }) {}

ControlServer::~ControlServer() { close(); }

void ControlServer::close() {
  if (!acceptor_.joinable()) return;
  ::shutdown(listener_.get(), SHUT_RDWR);  // wakes accept4(2)
  acceptor_.join();
  for (const auto& connection : connections_) ::shutdown(connection->socket.get(), SHUT_RDWR);
  for (const auto& connection : connections_) connection->thread.join();
  connections_.clear();
}

void ControlServer::accept_connections() {
  for (;;) {
    os::UniqueFd client;
    try {
      client = os::accept_connection(listener_);
    } catch (const os::Error& error) {
      if (error.error_number() == ECONNABORTED) continue;
      if (error.error_number() != EINVAL)
        spdlog::error("event=control_ended error=\"{}\"", error.what());
      return;
    }
    const std::scoped_lock lock(mutex_);
    forget_finished();
    if (connections_.size() >= max_connections) continue;  // closed again
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(client);
    Connection* raw = connection.get();
    connections_.push_back(std::move(connection));
    raw->thread = std::thread([this, raw] {
      serve(raw->socket);
      ::shutdown(raw->socket.get(), SHUT_RDWR);
      raw->finished = true;
    });
  }
}

void ControlServer::forget_finished() {
  connections_.remove_if([](const std::unique_ptr<Connection>& connection) {
    if (!connection->finished) return false;
    connection->thread.join();
    return true;
  });
}

void ControlServer::serve(const os::UniqueFd& client) {
  try {
    const os::PeerCredentials peer = os::peer_credentials(client);
    if (peer.uid != 0 && peer.uid != own_uid_) {
      send_json(client, failure(exit_failed, "only root may control the daemon"));
      return;
    }
    auto message = receive_control(client);
    if (!message || message->kind != ControlMessage::Kind::json) return;
    nlohmann::json answer;
    try {
      const nlohmann::json request = nlohmann::json::parse(message->body);
      answer = {{"end", handler_(client, request, std::move(message->fds))}};
    } catch (const ControlFailure& error) {
      answer = failure(error.code(), error.what());
    } catch (const nlohmann::json::exception& error) {
      answer = failure(exit_usage, std::string("malformed request: ") + error.what());
    }
    send_json(client, answer);
  } catch (const std::exception& error) {  // one command's end; the daemon goes on
    spdlog::warn("event=control_failed error=\"{}\"", error.what());
    try {
      send_json(client, failure(exit_failed, error.what()));
    } catch (const os::Error&) {  // the client has gone, which is the usual reason to be here
    }
  }
}

}  // namespace daiv::cli
