#include "api/measured_sessions.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <string_view>
#include <utility>

#include "sessions/fs_messages.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;

std::string_view name(sessions::SessionFailure failure) {
  using sessions::SessionFailure;
  switch (failure) {
    case SessionFailure::not_found:
      return "not_found";
    case SessionFailure::busy:
      return "busy";
    case SessionFailure::already_seeded:
      return "already_seeded";
    case SessionFailure::bad_request:
      return "bad_request";
    case SessionFailure::invalid_seed:
      return "invalid_seed";
    case SessionFailure::too_large:
      return "too_large";
    case SessionFailure::unavailable:
      return "unavailable";
  }
  return "internal";
}

// A request for a file operation begins with which one it is (agent/fs_protocol.hpp).
std::string_view file_operation(std::string_view request) {
  using sessions::fs::FsOperation;
  switch (static_cast<FsOperation>(request.empty() ? '\0' : request.front())) {
    case FsOperation::ls:
      return "ls";
    case FsOperation::read:
      return "read";
    case FsOperation::grep:
      return "grep";
    case FsOperation::glob:
      return "glob";
    case FsOperation::write:
      return "write";
    case FsOperation::edit:
      return "edit";
    case FsOperation::remove:
      return "delete";
  }
  return "fs";
}

// Times from its making to its end, and records what it was last told.
class Measurement {
public:
  Measurement(OperationMetrics& metrics, std::string_view operation, std::string_view outcome)
      : metrics_(metrics), operation_(operation), outcome_(outcome) {}
  ~Measurement() { metrics_.record(operation_, outcome_, steady_clock::now() - start_); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  void end(std::string_view outcome) noexcept { outcome_ = outcome; }

  // Awaits one step of the operation and notes how it failed.
  template <typename Result>
  asio::awaitable<Result> watch(asio::awaitable<Result> step) {
    try {
      if constexpr (std::is_void_v<Result>) {
        co_await std::move(step);
        co_return;
      } else {
        Result result = co_await std::move(step);
        co_return result;
      }
    } catch (const sessions::SessionError& error) {
      end(name(error.failure()));
      throw;
    } catch (const boost::system::system_error& error) {
      end(error.code() == asio::error::operation_aborted ? "cancelled" : "internal");
      throw;
    } catch (const std::exception&) {
      end("internal");
      throw;
    }
  }

private:
  OperationMetrics& metrics_;
  std::string_view operation_;
  std::string_view outcome_;
  steady_clock::time_point start_ = steady_clock::now();
};

template <typename Result>
asio::awaitable<Result> measured(OperationMetrics& metrics, std::string_view operation,
                                 asio::awaitable<Result> step) {
  Measurement measurement(metrics, operation, "ok");
  if constexpr (std::is_void_v<Result>) {
    co_await measurement.watch(std::move(step));
  } else {
    Result result = co_await measurement.watch(std::move(step));
    co_return result;
  }
}

}  // namespace

asio::awaitable<std::string> MeasuredSessions::create(sessions::CreateOptions options) {
  return measured(metrics_, "create", service_.create(std::move(options)));
}

asio::awaitable<bool> MeasuredSessions::touch(std::string id) {
  return measured(metrics_, "touch", service_.touch(std::move(id)));
}

asio::awaitable<std::vector<sessions::CommandResult>> MeasuredSessions::run(
    std::string id, sessions::RunOptions options) {
  return measured(metrics_, "run", service_.run(std::move(id), std::move(options)));
}

asio::awaitable<std::string> MeasuredSessions::fs(std::string id, std::string request) {
  const std::string_view operation = file_operation(request);
  return measured(metrics_, operation, service_.fs(std::move(id), std::move(request)));
}

asio::awaitable<void> MeasuredSessions::close(std::string id, sessions::CloseMode mode) {
  return measured(metrics_, mode == sessions::CloseMode::remove ? "remove" : "stop",
                  service_.close(std::move(id), mode));
}

asio::awaitable<sessions::EgressUpdate> MeasuredSessions::update_egress(
    std::string id, sessions::EgressPolicy policy) {
  return measured(metrics_, "egress", service_.update_egress(std::move(id), std::move(policy)));
}

// A seed lasts from its first step until its end; one that is given up on the way is "cancelled".
class MeasuredSessions::Seed final : public sessions::SeedSink {
public:
  explicit Seed(OperationMetrics& metrics) : measurement_(metrics, "seed", "cancelled") {}

  asio::awaitable<void> open(sessions::SessionService& service, std::string id) {
    sink_ = co_await measurement_.watch(service.begin_seed(std::move(id)));
  }
  asio::awaitable<void> begin(sessions::SeedField field) override {
    return measurement_.watch(sink_->begin(field));
  }
  asio::awaitable<void> write(std::string bytes) override {
    return measurement_.watch(sink_->write(std::move(bytes)));
  }
  asio::awaitable<void> end() override { return measurement_.watch(sink_->end()); }
  asio::awaitable<void> commit() override {
    co_await measurement_.watch(sink_->commit());
    measurement_.end("ok");
  }

private:
  Measurement measurement_;
  std::unique_ptr<sessions::SeedSink> sink_;
};

asio::awaitable<std::unique_ptr<sessions::SeedSink>> MeasuredSessions::begin_seed(std::string id) {
  auto seed = std::make_unique<Seed>(metrics_);
  co_await seed->open(service_, std::move(id));
  std::unique_ptr<sessions::SeedSink> sink = std::move(seed);
  co_return sink;
}

}  // namespace daiv::api
