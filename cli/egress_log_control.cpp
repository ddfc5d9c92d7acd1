#include "cli/egress_log_control.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>

#include "cli/control_protocol.hpp"
#include "cli/egress_plan.hpp"

using nlohmann::json;

namespace daiv::cli {
namespace {

constexpr std::chrono::milliseconds look_around{250};

std::size_t send_new(EgressLog& log, const os::UniqueFd& client, const std::string& session,
                     std::uint64_t& seen, std::chrono::milliseconds wait) {
  const auto entries = log.read(session, seen, wait);
  for (const EgressLog::Entry& entry : entries) {
    json described = describe(entry);
    const std::string text =
        fmt::format("{} {}", described.at("time").get<std::string>(), describe(entry.decision));
    send_json(client, {{"event", "decision"}, {"entry", std::move(described)}, {"text", text}});
    seen = entry.number;
  }
  return entries.size();
}

}  // namespace

json send_egress_log(EgressLog& log, const os::UniqueFd& client, const json& request,
                     const std::function<bool(const std::string&)>& is_there) {
  const std::string session = request.at("session");
  if (!is_there(session))
    throw ControlFailure(exit_not_found, fmt::format("no session {}", session));
  std::uint64_t seen = 0;
  std::size_t sent = send_new(log, client, session, seen, {});
  if (request.value("follow", false)) {
    while (!hung_up(client, {}) && is_there(session))
      sent += send_new(log, client, session, seen, look_around);
    sent += send_new(log, client, session, seen, {});  // of its last moments
  }
  return {{"session", session}, {"decisions", sent}};
}

}  // namespace daiv::cli
