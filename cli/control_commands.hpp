#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "cli/egress_log.hpp"
#include "cli/pull_metrics.hpp"
#include "images/image_service.hpp"
#include "os/unique_fd.hpp"
#include "runtime/broker_client.hpp"
#include "sessions/native_sessions.hpp"

namespace daiv::cli {

// What the daemon does for the command line. Called on the control server's threads; sessions are
// reached through the io thread.
class ControlCommands {
public:
  ControlCommands(images::ImageService& images, PullMetrics& pulls,
                  sessions::NativeSessions& sessions, runtime::BrokerClient& broker,
                  EgressLog* egress_log, boost::asio::any_io_executor executor);

  // Throws ControlFailure.
  nlohmann::json carry_out(const os::UniqueFd& client, const nlohmann::json& request,
                           std::vector<os::UniqueFd> fds);

private:
  nlohmann::json pull(const os::UniqueFd& client, const nlohmann::json& request);
  nlohmann::json load(const os::UniqueFd& client, std::vector<os::UniqueFd> fds);
  nlohmann::json list_images();
  nlohmann::json prune(const nlohmann::json& request);
  nlohmann::json list_sessions();
  nlohmann::json exec(const os::UniqueFd& client, const nlohmann::json& request);
  nlohmann::json remove(const nlohmann::json& request);
  nlohmann::json show_egress_log(const os::UniqueFd& client, const nlohmann::json& request);
  nlohmann::json probe();
  bool is_session(const os::UniqueFd& client, const std::string& id);

  images::ImageService& images_;
  PullMetrics& pulls_;
  sessions::NativeSessions& sessions_;
  runtime::BrokerClient& broker_;
  EgressLog* egress_log_;  // null: no egress
  boost::asio::any_io_executor executor_;
};

}  // namespace daiv::cli
