#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::cli {

struct ControlObserver {
  std::function<void(const nlohmann::json&)> event = {};
  std::function<void(std::string_view)> output = {};
};

// A connection to the daemon; empty where none listens at <runtime_dir>/front/control.sock.
std::optional<os::UniqueFd> connect_to_daemon(const std::string& runtime_dir);

// Sends `request` and waits for its end: what the daemon says with it. Throws ControlFailure with
// the daemon's text.
nlohmann::json ask_daemon(const os::UniqueFd& daemon, const nlohmann::json& request,
                          const ControlObserver& observer = {}, const std::vector<int>& fds = {});

}  // namespace daiv::cli
