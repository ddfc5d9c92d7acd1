#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "agent/protocol.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent::test {

enum class Image { host, busybox, no_shell };
enum class Grouping { cgroup, none };

struct SandboxOptions {
  Image image = Image::host;
  Grouping grouping = Grouping::cgroup;
  Config config;
};

// One answer frame.
struct Answer {
  AnswerType type{};
  std::string payload;
};

// The front's end of one connection.
class FrontConnection {
public:
  explicit FrontConnection(os::UniqueFd socket) : socket_(std::move(socket)) {}

  void send(RequestType type, std::string_view payload);
  void send_raw(std::string_view bytes);
  // Whether an answer, or the end of the stream, comes within the time.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const;
  // An `end of stream` is a frame of type 0.
  Answer receive();
  [[nodiscard]] const os::UniqueFd& socket() const { return socket_; }

private:
  os::UniqueFd socket_;
};

struct ExecResult {
  std::string output;
  ExecDone done;
  std::chrono::milliseconds took{};
};

// The real agent as PID 1 of new user, pid, mount, ipc and uts namespaces, over a root of tmpfs and
// bind mounts. Needs root. Everything is gone with it.
class SandboxedAgent {
public:
  explicit SandboxedAgent(SandboxOptions options = {});
  ~SandboxedAgent();
  SandboxedAgent(const SandboxedAgent&) = delete;
  SandboxedAgent& operator=(const SandboxedAgent&) = delete;

  FrontConnection connect() const;
  ExecResult exec(std::string_view command, std::chrono::milliseconds timeout = {},
                  std::uint64_t max_output = 64U << 20) const;
  static ExecResult finish_exec(FrontConnection& connection);
  // The processes of the sandbox but the agent itself, as the agent counts them.
  std::uint32_t processes() const;
  Status status() const;
  Answer terminate(std::chrono::milliseconds grace) const;

  // Lets the agent's workers stand still without its knowledge (cgroup-v2, cgroup.freeze), or go
  // on.
  void freeze_workers(bool frozen) const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  // From the clone until "r".
  [[nodiscard]] std::chrono::microseconds started_in() const { return started_in_; }

private:
  std::string directory_;
  std::string cgroup_path_;
  pid_t pid_ = 0;
  std::chrono::microseconds started_in_{};
};

// Waits until `condition` holds; false after `limit`.
template <typename Condition>
bool eventually(Condition&& condition,
                std::chrono::milliseconds limit = std::chrono::milliseconds(3000)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition())
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

}  // namespace daiv::agent::test
