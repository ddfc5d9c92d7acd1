#include "cli/control_client.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>

#include "cli/control_protocol.hpp"
#include "os/error.hpp"
#include "os/socket.hpp"

using nlohmann::json;

namespace daiv::cli {

std::optional<os::UniqueFd> connect_to_daemon(const std::string& runtime_dir) {
  try {
    return os::connect_unix(control_socket_path(runtime_dir), os::SocketKind::seqpacket);
  } catch (const os::Error& error) {
    if (error.error_number() == ENOENT || error.error_number() == ECONNREFUSED) return std::nullopt;
    throw;
  }
}

json ask_daemon(const os::UniqueFd& daemon, const json& request, const ControlObserver& observer,
                const std::vector<int>& fds) {
  send_json(daemon, request, fds);
  for (;;) {
    const auto message = receive_control(daemon);
    if (!message) throw ControlFailure(exit_unavailable, "the daemon ended before it answered");
    if (message->kind == ControlMessage::Kind::output) {
      if (observer.output) observer.output(message->body);
      continue;
    }
    json body = json::parse(message->body);
    if (body.contains("end")) return std::move(body["end"]);
    if (body.contains("error"))
      throw ControlFailure(static_cast<ExitCode>(body.at("exit").get<int>()), body.at("error"));
    if (observer.event) observer.event(body);
  }
}

}  // namespace daiv::cli
