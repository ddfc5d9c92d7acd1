#include "agent/request.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "os/error.hpp"

namespace daiv::agent {

bool is_read_by_worker(RequestType type) {
  return type == RequestType::fs || type == RequestType::seed;
}

Request::Request(Context& context, os::UniqueFd connection, Events events, EndCallback on_end)
    : context_(context),
      connection_(std::move(connection)),
      events_(std::move(events)),
      on_end_(std::move(on_end)),
      watch_(context.loop, connection_, EPOLLIN | EPOLLRDHUP,
             [this](std::uint32_t) { on_readable(); }) {
  on_readable();  // the front writes right after it has connected
}

void Request::on_readable() {
  while (connection_ && read_more()) {
    if (bytes_.size() < wanted_) continue;
    if (wanted_ != frame_header_bytes || header_.type != 0) return deliver();
    try {
      header_ = parse_frame_header(bytes_, max_request_bytes);
    } catch (const wire::DecodeError& error) {
      watch_.reset();
      events_.on_invalid(error.what(), std::move(connection_));
      return on_end_();
    }
    bytes_.clear();
    wanted_ = header_.length;
    if (wanted_ == 0 || is_read_by_worker(static_cast<RequestType>(header_.type))) return deliver();
  }
}

bool Request::read_more() {
  const std::size_t count = std::min(wanted_ - bytes_.size(), chunk_bytes);
  const auto got = os::retry_eintr(
      [&] { return ::recv(connection_.get(), context_.buffer.get(), count, MSG_DONTWAIT); });
  if (got > 0) {
    bytes_.append(context_.buffer.get(), static_cast<std::size_t>(got));
    return true;
  }
  if (got == 0 || errno != EAGAIN) {  // the front went before it had asked for anything
    watch_.reset();
    connection_.reset();
    on_end_();
  }
  return false;
}

void Request::deliver() {
  watch_.reset();
  events_.on_request(header_, std::move(bytes_), std::move(connection_));
  on_end_();
}

}  // namespace daiv::agent
