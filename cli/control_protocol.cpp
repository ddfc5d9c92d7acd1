#include "cli/control_protocol.hpp"

#include <nlohmann/json.hpp>
#include <poll.h>

#include <cerrno>

#include "os/error.hpp"
#include "os/socket.hpp"

namespace daiv::cli {
namespace {

constexpr char json_mark = 'J';
constexpr char output_mark = 'B';

}  // namespace

std::string control_socket_path(const std::string& runtime_dir) {
  return runtime_dir + "/front/control.sock";
}

void send_json(const os::UniqueFd& socket, const nlohmann::json& message,
               const std::vector<int>& fds) {
  // Names and messages may hold any bytes; what is no UTF-8 becomes U+FFFD.
  const std::string text =
      json_mark + message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  os::send_message(socket, text, fds);
}

void send_output(const os::UniqueFd& socket, std::string_view bytes) {
  std::string message(1, output_mark);
  message += bytes;
  os::send_message(socket, message);
}

std::optional<ControlMessage> receive_control(const os::UniqueFd& socket) {
  auto received = os::receive_message(socket, max_control_message_bytes);
  if (!received) return std::nullopt;
  const char mark = received->data.empty() ? '\0' : received->data.front();
  if (mark != json_mark && mark != output_mark)
    throw os::Error(EPROTO, "recvmsg", "control socket");
  ControlMessage message;
  message.kind = mark == json_mark ? ControlMessage::Kind::json : ControlMessage::Kind::output;
  message.body = received->data.substr(1);
  message.fds = std::move(received->fds);
  return message;
}

bool hung_up(const os::UniqueFd& socket, std::chrono::milliseconds wait) {
  pollfd entry{socket.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, static_cast<int>(wait.count())) > 0;
}

}  // namespace daiv::cli
