#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"

// What the command line and the daemon say to each other over <runtime dir>/front/control.sock,
// a SEQPACKET unix socket that only root and the daemon's own user may use. A connection carries
// one request:
//   client → daemon  {"command": …, …}, for `load` with a descriptor attached
//   daemon → client  {"event": …}* and raw output*, then {"end": {…}} or {"error": "text", "exit":
//   n}
// The first byte of a message tells JSON ('J') from raw output ('B').
namespace daiv::cli {

inline constexpr std::size_t max_control_message_bytes = 128U << 10;
inline constexpr std::size_t output_chunk_bytes = 64U << 10;

// Exit codes of the command line, as its help says.
enum ExitCode : int {
  exit_ok = 0,
  exit_failed = 1,       // the operation failed
  exit_usage = 2,        // wrong arguments
  exit_not_found = 3,    // no such session or image
  exit_unavailable = 4,  // no daemon answers, or a retry may help
  exit_exec_failed =
      125,  // exec: the command could not be run at all; any other code is the command's own
};

// What a command fails with when the client must be told; anything else is logged and told as an
// internal error.
class ControlFailure : public std::exception {
public:
  ControlFailure(ExitCode code, std::string text) : code_(code), text_(std::move(text)) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  ExitCode code_;
  std::string text_;
};

std::string control_socket_path(const std::string& runtime_dir);

struct ControlMessage {
  enum class Kind { json, output } kind = Kind::json;
  std::string body;
  std::vector<os::UniqueFd> fds;
};

// Both block. Throw os::Error; EPIPE where the peer is gone.
void send_json(const os::UniqueFd& socket, const nlohmann::json& message,
               const std::vector<int>& fds = {});
void send_output(const os::UniqueFd& socket, std::string_view bytes);  // at most output_chunk_bytes
// Empty where the peer closed. Throws os::Error{EPROTO} for a message of neither kind.
std::optional<ControlMessage> receive_control(const os::UniqueFd& socket);
// Whether the peer has closed, or does so within `wait`.
bool hung_up(const os::UniqueFd& socket, std::chrono::milliseconds wait);

}  // namespace daiv::cli
