#include "agent/server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "agent/exec_operation.hpp"
#include "agent/fs_pool.hpp"
#include "agent/process_list.hpp"
#include "agent/request.hpp"
#include "agent/seed_operation.hpp"
#include "agent/terminate_operation.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

// A short answer to a front that may be gone; a socket's buffer always takes it.
void send_once(const os::UniqueFd& connection, AnswerType type, std::string_view payload) {
  const auto frame = make_frame(static_cast<std::uint8_t>(type), payload);
  [[maybe_unused]] const auto ignored =
      ::send(connection.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Server::Server(Context& context, os::UniqueFd listener)
    : context_(context),
      listener_(std::move(listener)),
      watch_(context.loop, listener_, EPOLLIN, [this](std::uint32_t) { on_connection(); }),
      fs_(std::make_unique<FsPool>(context)) {}

Server::~Server() = default;

void Server::on_connection() {
  // One a turn: epoll is level-triggered. accept4 may not find what it was woken for.
  os::UniqueFd connection(
      ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return;
  if (operations_.size() >= max_connections)
    return fail(std::move(connection), "too many requests at once");
  const auto id = ++last_id_;
  Request::Events events{
      .on_request =
          [this](FrameHeader header, const std::string& payload, os::UniqueFd ready) {
            start(static_cast<RequestType>(header.type), payload, header.length, std::move(ready));
          },
      .on_invalid = [this](const std::string& message,
                           os::UniqueFd ready) { fail(std::move(ready), message); }};
  operations_.emplace(id, nullptr);
  operations_[id] =
      std::make_unique<Request>(context_, std::move(connection), std::move(events), end_of(id));
}

Operation::EndCallback Server::end_of(std::uint64_t id) {
  return [this, id] { context_.loop.post([this, id] { operations_.erase(id); }); };
}

void Server::start(RequestType type, std::string_view payload, std::uint32_t length,
                   os::UniqueFd connection) {
  const auto id = ++last_id_;
  const bool starts_something =
      type == RequestType::exec || type == RequestType::seed || type == RequestType::fs;
  if (context_.terminating && starts_something)
    return fail(std::move(connection), "the session is being ended");
  try {
    switch (type) {
      case RequestType::exec:
        operations_[id] = std::make_unique<ExecOperation>(context_, std::move(connection),
                                                          ExecRequest::decode(payload), end_of(id));
        return;
      case RequestType::terminate:
        operations_[id] = std::make_unique<TerminateOperation>(
            context_, std::move(connection), TerminateRequest::decode(payload), end_of(id));
        return;
      case RequestType::seed:
        operations_[id] =
            std::make_unique<SeedOperation>(context_, std::move(connection), length, end_of(id));
        return;
      case RequestType::fs:
        fs_->submit(std::move(connection), length);
        return;
      case RequestType::status:
        answer_status(std::move(connection));
        return;
      case RequestType::seed_data:
      case RequestType::seed_end:
        break;
    }
    fail(std::move(connection), "unknown request");
  } catch (const wire::DecodeError& error) {
    operations_.erase(id);
    fail(std::move(connection), error.what());
  } catch (const os::Error& error) {
    operations_.erase(id);
    fail(std::move(connection), error.what());
  }
}

void Server::fail(os::UniqueFd connection, std::string_view message) {
  if (connection) send_once(connection, AnswerType::failed, Failed{std::string(message)}.encode());
}

void Server::answer_status(os::UniqueFd connection) {
  Status status;
  if (const auto shell = context_.shells.find()) {
    status.shell = shell->path;
    status.pipefail = shell->pipefail;
  }
  for (const auto& process : list_processes()) status.processes += process.zombie ? 0 : 1;
  send_once(connection, AnswerType::status, status.encode());
}

}  // namespace daiv::agent
