#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sessions/session_service.hpp"

namespace daiv::api::test {

class TextOutput final : public sessions::Output {
public:
  explicit TextOutput(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] std::uint64_t size() const override { return text_.size(); }
  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t max) const override {
    return text_.substr(offset, max);
  }

private:
  std::string text_;
};

// Sessions in memory. Commands: "hang" ends when release() is called, "crash" throws an internal
// error, "busy" and "full" fail as their names say, "big N" prints N bytes, any other prints
// itself. Used on the server's thread alone.
class FakeService final : public sessions::SessionService {
public:
  using Task = boost::asio::awaitable<void>;

  struct Seed {
    std::map<sessions::SeedField, std::string> archives;
    bool committed = false;
  };

  std::set<std::string> sessions;
  std::set<std::string> seeded;
  Seed last_seed;
  std::vector<sessions::CreateOptions> created;
  std::vector<sessions::RunOptions> runs;
  std::vector<std::string> fs_requests;
  std::string fs_reply;
  std::function<void(std::size_t)> on_seed_bytes = [](std::size_t) {};
  int hanging = 0;
  int cancelled = 0;
  sessions::CloseMode last_close = sessions::CloseMode::keep_warm;

  boost::asio::awaitable<std::string> create(sessions::CreateOptions options) override {
    created.push_back(std::move(options));
    std::string id = "session-" + std::to_string(created.size());
    sessions.insert(id);
    co_return id;
  }

  boost::asio::awaitable<bool> touch(std::string id) override { co_return exists(id); }

  boost::asio::awaitable<std::vector<sessions::CommandResult>> run(
      std::string id, sessions::RunOptions options) override {
    require(id);
    runs.push_back(options);
    std::vector<sessions::CommandResult> results;
    for (const std::string& command : options.commands) {
      if (command == "crash") throw std::runtime_error("internal detail");
      if (command == "busy") throw sessions::SessionError(sessions::SessionFailure::busy, "");
      if (command == "full")
        throw sessions::SessionError(sessions::SessionFailure::unavailable, "disk full");
      if (command == "hang") co_await hang();
      std::string text =
          command.starts_with("big ") ? std::string(std::stoul(command.substr(4)), 'x') : command;
      sessions::CommandResult result;
      result.command = command;
      result.output = std::make_unique<TextOutput>(std::move(text));
      results.push_back(std::move(result));
    }
    co_return results;
  }

  boost::asio::awaitable<std::unique_ptr<sessions::SeedSink>> begin_seed(std::string id) override {
    require(id);
    if (seeded.contains(id))
      throw sessions::SessionError(sessions::SessionFailure::already_seeded, "");
    last_seed = Seed();
    std::unique_ptr<sessions::SeedSink> sink = std::make_unique<Sink>(*this, id);
    co_return sink;
  }

  boost::asio::awaitable<std::string> fs(std::string id, std::string request) override {
    require(id);
    fs_requests.push_back(std::move(request));
    co_return fs_reply;
  }

  boost::asio::awaitable<void> close(std::string id, sessions::CloseMode mode) override {
    last_close = mode;
    if (mode == sessions::CloseMode::remove) sessions.erase(id);
    co_return;
  }

  bool egress_offered = false;
  sessions::EgressUpdate egress_update = sessions::EgressUpdate::no_egress;
  std::vector<sessions::EgressPolicy> policies;
  [[nodiscard]] bool offers_egress() const override { return egress_offered; }
  boost::asio::awaitable<sessions::EgressUpdate> update_egress(
      std::string id, sessions::EgressPolicy policy) override {
    require(id);
    policies.push_back(std::move(policy));
    co_return egress_update;
  }

  void release() { released_->cancel(); }

  [[nodiscard]] bool exists(const std::string& id) const override { return sessions.contains(id); }
  [[nodiscard]] Counts counts() const override { return {sessions.size(), 0}; }

private:
  class Sink final : public sessions::SeedSink {
  public:
    Sink(FakeService& service, std::string id) : service_(service), id_(std::move(id)) {}
    Task begin(sessions::SeedField field) override {
      field_ = field;
      service_.last_seed.archives[field];
      co_return;
    }
    Task write(std::string bytes) override {
      service_.on_seed_bytes(bytes.size());
      if (bytes.starts_with("refuse"))
        throw sessions::SessionError(sessions::SessionFailure::invalid_seed,
                                     "repo_archive is invalid: refused");
      std::string& archive = service_.last_seed.archives[field_];
      if (archive.size() < (1U << 20)) archive += bytes;
      co_return;
    }
    Task end() override { co_return; }
    Task commit() override {
      service_.last_seed.committed = true;
      service_.seeded.insert(id_);
      co_return;
    }

  private:
    FakeService& service_;
    std::string id_;
    sessions::SeedField field_ = sessions::SeedField::repo;
  };

  void require(const std::string& id) const {
    if (!exists(id))
      throw sessions::SessionError(sessions::SessionFailure::not_found, "no such session");
  }

  Task hang() {
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    released_ = std::make_unique<boost::asio::steady_timer>(
        executor, boost::asio::steady_timer::time_point::max());
    ++hanging;
    const auto outcome =
        co_await released_->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    --hanging;
    released_.reset();  // it must not outlive the server's context
    static_cast<void>(outcome);
    const auto state = co_await boost::asio::this_coro::cancellation_state;
    if (state.cancelled() == boost::asio::cancellation_type::none) co_return;
    ++cancelled;
    throw boost::system::system_error(boost::asio::error::operation_aborted);
  }

  std::unique_ptr<boost::asio::steady_timer> released_;
};

}  // namespace daiv::api::test
