#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/protocol.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"
#include "runtime/broker_client.hpp"
#include "sessions/sandbox_host.hpp"

namespace daiv::sessions {

// One sandbox of the fake host: a listening socket, answered by a thread as an agent would.
class FakeSandbox {
public:
  explicit FakeSandbox(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path);
    listener_ = os::listen_unix(path, os::SocketKind::stream, 64);
    end_ = os::UniqueFd(os::check(::eventfd(0, EFD_CLOEXEC), "eventfd", "fake"));
    thread_ = std::thread([this] { accept_all(); });
  }
  ~FakeSandbox() { die(); }
  FakeSandbox(const FakeSandbox&) = delete;
  FakeSandbox& operator=(const FakeSandbox&) = delete;

  // Readable when the "process" has ended, as a pidfd is.
  [[nodiscard]] os::UniqueFd pidfd() const { return os::duplicate(end_); }

  void die() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    listener_.reset();
    const std::uint64_t one = 1;
    os::write_full(end_, {reinterpret_cast<const char*>(&one), sizeof one});
  }

private:
  void accept_all() {
    try {
      for (;;) answer(os::accept_connection(listener_));
    } catch (const os::Error&) {  // shut down
    }
  }
  static std::string read_frame(const os::UniqueFd& client, std::uint8_t& type) {
    std::array<std::byte, agent::frame_header_bytes> header{};
    if (os::read_full(client, header) < header.size()) throw os::Error(EPIPE, "read", "front");
    const auto parsed = agent::parse_frame_header(
        {reinterpret_cast<const char*>(header.data()), header.size()}, agent::max_request_bytes);
    type = parsed.type;
    std::string payload(parsed.length, '\0');
    os::read_full(client, std::as_writable_bytes(std::span(payload)));
    return payload;
  }
  static void send(const os::UniqueFd& client, agent::AnswerType type, const std::string& payload) {
    os::write_full(client, agent::make_frame(static_cast<std::uint8_t>(type), payload));
  }
  static void exec(const os::UniqueFd& client, const agent::ExecRequest& request) {
    if (request.command == "hang") {
      std::array<std::byte, 1> none{};
      os::read_some(client, none);  // until the front closes
      return;
    }
    if (request.command == "drop") return;
    agent::ExecDone done;
    if (request.command == "fail") done.code = 1;
    if (request.command == "timeout") done.outcome = agent::ExecOutcome::timed_out;
    done.output_bytes = request.command.size();
    send(client, agent::AnswerType::output, request.command);
    send(client, agent::AnswerType::exec_done, done.encode());
  }
  static void seed(const os::UniqueFd& client) {
    std::string bytes;
    for (;;) {
      std::uint8_t type = 0;
      const std::string payload = read_frame(client, type);
      if (type == static_cast<std::uint8_t>(agent::RequestType::seed_end)) break;
      bytes += agent::SeedData::decode(payload).bytes;
    }
    agent::SeedDone done;
    if (bytes == "bad")
      done = {agent::SeedOutcome::invalid_archive, agent::SeedTarget::repo, "bad archive"};
    send(client, agent::AnswerType::seed_done, done.encode());
  }
  static void answer(os::UniqueFd client) {
    try {
      std::uint8_t type = 0;
      const std::string payload = read_frame(client, type);
      if (type == static_cast<std::uint8_t>(agent::RequestType::exec))
        exec(client, agent::ExecRequest::decode(payload));
      if (type == static_cast<std::uint8_t>(agent::RequestType::seed)) seed(client);
      if (type == static_cast<std::uint8_t>(agent::RequestType::terminate))
        send(client, agent::AnswerType::done, "");
      if (type == static_cast<std::uint8_t>(agent::RequestType::fs))
        send(client, agent::AnswerType::fs, payload);
    } catch (const os::Error&) {  // the front has gone
    }
  }

  os::UniqueFd listener_;
  os::UniqueFd end_;
  std::thread thread_;
};

// The host without a kernel: it remembers what was asked of it.
class FakeHost : public SandboxHost {
public:
  explicit FakeHost(std::string runtime_dir) : runtime_dir_(std::move(runtime_dir)) {}

  Sandbox create(const SandboxSpec& spec) override {
    if (before_creation) before_creation();
    const std::scoped_lock lock(mutex_);
    if (gone) throw runtime::BrokerGone();
    if (fail_next) {
      layers_on_disk.insert(spec.request.session);
      throw HostError(*std::exchange(fail_next, std::nullopt), "no luck");
    }
    ++creations;
    last_spec = spec;
    layers_on_disk.insert(spec.request.session);
    running_[spec.request.session] = std::make_unique<FakeSandbox>(
        runtime_dir_ + "/sessions/" + spec.request.session + "/agent.sock");
    Sandbox sandbox{running_[spec.request.session]->pidfd(), {}};
    if (spec.request.egress) sandbox.egress_sockets.push_back(std::move(os::make_pipe().read_end));
    return sandbox;
  }
  void kill(const std::string& session) override {
    const std::scoped_lock lock(mutex_);
    if (gone) throw runtime::BrokerGone();
    running_.erase(session);
  }
  void remove(const std::string& session) override {
    const std::scoped_lock lock(mutex_);
    if (gone) throw runtime::BrokerGone();
    if (failing_removals > 0) {
      --failing_removals;
      throw HostError(runtime::Failure::internal, "no luck");
    }
    running_.erase(session);
    layers_on_disk.erase(session);
  }
  std::vector<runtime::SandboxEntry> list() override {
    const std::scoped_lock lock(mutex_);
    std::vector<runtime::SandboxEntry> entries;
    for (const auto& id : layers_on_disk) entries.push_back({id, running_.contains(id), true});
    return entries;
  }
  Sandbox adopt(const runtime::AdoptSandbox& request) override {
    const std::scoped_lock lock(mutex_);
    ++adoptions;
    Sandbox sandbox{running_.at(request.session)->pidfd(), {}};
    if (request.egress_port != 0)
      sandbox.egress_sockets.push_back(std::move(os::make_pipe().read_end));
    return sandbox;
  }
  void crash(const std::string& session) {
    const std::scoped_lock lock(mutex_);
    running_.at(session)->die();
  }
  [[nodiscard]] std::size_t running() {
    const std::scoped_lock lock(mutex_);
    return running_.size();
  }

  std::function<void()> before_creation;
  std::optional<runtime::Failure> fail_next;
  std::set<std::string> layers_on_disk;
  SandboxSpec last_spec;
  int failing_removals = 0;
  bool gone = false;
  int creations = 0;
  int adoptions = 0;

private:
  std::string runtime_dir_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<FakeSandbox>> running_;
};

}  // namespace daiv::sessions
