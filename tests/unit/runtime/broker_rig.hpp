#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "os/process.hpp"
#include "os/unique_fd.hpp"
#include "runtime/broker_client.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime::test {

inline constexpr std::uint32_t uid_start =
    0x91000000;  // above the default ranges: a daemon may run here too
inline constexpr std::uint32_t uid_count = 64;

// A real broker with directories, cgroups and uid ranges of its own, and the way to speak to it and
// to its sandboxes.
class BrokerRig {
public:
  // `environment` is the broker's; `more` are arguments of it.
  explicit BrokerRig(std::vector<std::string> environment = {},
                     const std::string& state_name = "state", std::vector<std::string> more = {});
  ~BrokerRig();
  BrokerRig(const BrokerRig&) = delete;
  BrokerRig& operator=(const BrokerRig&) = delete;

  Reply call(const Request& request, const std::vector<int>& fds = {}) {
    return client_->call(request, fds);
  }
  // Kills the broker and starts another on the same directories.
  void restart();

  // A layer with what `fill` makes in its directory, owned by the storage range's root.
  std::string add_layer(const std::string& shell_script = "mkdir -p bin etc");
  CreateSandbox request(std::vector<std::string> layers = {});
  // Creates and expects success; returns the pidfd.
  os::UniqueFd create(const CreateSandbox& request, const std::string& config = "");
  // Creates with this configuration, whatever comes of it.
  Reply try_create(const CreateSandbox& request, const std::string& config = "");
  // What the sandbox's PID 1 answers to a line.
  [[nodiscard]] std::string ask(const std::string& session, const std::string& line) const;

  [[nodiscard]] const std::string& base() const { return base_; }
  [[nodiscard]] const std::string& state() const { return state_; }
  [[nodiscard]] const std::string& run() const { return run_; }
  [[nodiscard]] const std::string& cgroup() const { return cgroup_; }
  [[nodiscard]] pid_t broker_pid() const { return broker_.pid(); }

private:
  void start();

  std::string base_;
  std::string state_;
  std::string run_;
  std::string cgroup_;
  std::vector<std::string> environment_;
  std::vector<std::string> more_;
  os::Child broker_;
  std::unique_ptr<BrokerClient> client_;
  unsigned next_layer_ = 0;
  unsigned next_session_ = 0;
};

// What a rig's sandboxes leave on a host, counted, and nothing of others. Equal before and after:
// nothing leaked.
struct Inventory {
  std::size_t processes = 0;  // with a uid of the test's ranges
  std::size_t mounts = 0;     // of what is below the rig's directory
  std::size_t cgroups = 0;
  std::size_t namespaces = 0;  // of network, of those and of the broker's children, but the host's
  friend bool operator==(const Inventory&, const Inventory&) = default;
};
Inventory count_traces(const BrokerRig& rig);

// Fails, or skips aloud where the test needs root.
#define DAIV_REQUIRE_ROOT() \
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: it makes namespaces, mounts and cgroups"

std::string failure_text(const Reply& reply);

}  // namespace daiv::runtime::test
