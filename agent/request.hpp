#pragma once

#include <functional>
#include <string>

#include "agent/context.hpp"

namespace daiv::agent {

// Reads one request frame from a new connection, without blocking. Memory grows with what has
// really arrived.
class Request final : public Operation {
public:
  struct Events {
    // The frame's header and, except for requests that are read by a worker, its payload.
    std::function<void(FrameHeader, std::string payload, os::UniqueFd connection)> on_request;
    std::function<void(std::string message, os::UniqueFd connection)> on_invalid;
  };

  Request(Context& context, os::UniqueFd connection, Events events, EndCallback on_end);

private:
  void on_readable();
  // False where nothing more can be read now.
  bool read_more();
  void deliver();

  Context& context_;
  os::UniqueFd connection_;
  Events events_;
  EndCallback on_end_;
  std::string bytes_;
  FrameHeader header_;
  std::size_t wanted_ = frame_header_bytes;
  Watch watch_;
};

// The worker reads the payload of these from the connection.
bool is_read_by_worker(RequestType type);

}  // namespace daiv::agent
