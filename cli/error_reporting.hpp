#pragma once

#include <memory>
#include <string>

#include "api/extensions.hpp"
#include "cli/settings.hpp"

namespace spdlog::sinks {
class sink;
}
namespace daiv::sentry {
class Client;
}

namespace daiv::cli {

// Sentry, for as long as it lives: what is logged as an error is an event there (unhandled failures
// of requests among them), finished requests are transactions, and log lines are forwarded where
// the settings say so. Made and ended while only one thread logs.
class ErrorReporting final : public api::RequestObserver {
public:
  // Empty where no DSN is set, or ENVIRONMENT is local. Throws std::runtime_error for a bad DSN.
  static std::unique_ptr<ErrorReporting> start(const Settings& settings,
                                               const std::string& version);

  // Sends what is left; waits at most two seconds for it.
  ~ErrorReporting() override;
  ErrorReporting(const ErrorReporting&) = delete;
  ErrorReporting& operator=(const ErrorReporting&) = delete;

  void finished(const api::FinishedRequest& request) noexcept override;

private:
  explicit ErrorReporting(std::unique_ptr<sentry::Client> client);

  std::unique_ptr<sentry::Client> client_;
  std::shared_ptr<spdlog::sinks::sink> sink_;
};

}  // namespace daiv::cli
