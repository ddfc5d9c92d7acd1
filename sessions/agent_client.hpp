#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace daiv::sessions {

// The front's end of agent/protocol.hpp. All that comes from an agent is untrusted: a frame that is
// too long or of a wrong kind, silence and early closing end this one connection with AgentError
// and touch nothing else.

enum class AgentFault {
  gone,     // nobody listens, or the connection was closed before the answer: the sandbox has ended
  stalled,  // no answer in time
  malformed,  // an answer that is none
  refused,    // the agent says that it could not do it
};

class AgentError : public std::exception {
public:
  AgentError(AgentFault fault, std::string text) : fault_(fault), text_(std::move(text)) {}
  [[nodiscard]] AgentFault fault() const noexcept { return fault_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  AgentFault fault_;
  std::string text_;
};

struct AgentFrame {
  std::uint8_t type = 0;
  std::string payload;
};

using AgentLimit = std::chrono::milliseconds;

// One connection, which carries one operation. Destroying it closes the socket, and by that the
// agent cancels what it does for it. Used on the io thread.
class AgentConnection {
public:
  // Throws AgentError{gone | stalled}.
  static boost::asio::awaitable<AgentConnection> open(std::string socket_path, AgentLimit limit);

  AgentConnection(AgentConnection&&) noexcept;
  AgentConnection& operator=(AgentConnection&&) noexcept;
  ~AgentConnection();

  // Sends one frame within `limit`. Throws AgentError{gone | stalled}.
  boost::asio::awaitable<void> send(std::uint8_t type, std::string payload, AgentLimit limit);

  // As send(), but gives up as soon as the agent answers: then false, and receive() has the answer.
  boost::asio::awaitable<bool> send_unless_answered(std::uint8_t type, std::string payload,
                                                    AgentLimit limit);

  // The next frame, of at most agent::max_answer_bytes; without `limit` it waits until the caller
  // is cancelled or the sandbox ends. Throws AgentError.
  boost::asio::awaitable<AgentFrame> receive(std::optional<AgentLimit> limit);

private:
  struct Impl;
  explicit AgentConnection(std::unique_ptr<Impl> impl) noexcept;

  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::sessions
