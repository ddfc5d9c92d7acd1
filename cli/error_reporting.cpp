#include "cli/error_reporting.hpp"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>

#include "sentry/client.hpp"
#include "sentry/log_sink.hpp"

namespace daiv::cli {
namespace {

constexpr std::chrono::milliseconds flush_limit{2000};
// nginx's number for a client that closed the request, for want of one in HTTP.
constexpr int client_closed_request = 499;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

sentry::Process describe_process(const Settings& settings, const std::string& version) {
  sentry::Process process;
  process.release = "daiv-sandbox@" + version;
  process.environment = settings.environment == Environment::local ? "local" : "production";
  process.server_name = host_name();
  process.pii =
      settings.sentry_send_default_pii == Switch::on ? sentry::Pii::sent : sentry::Pii::stripped;
  process.traces_sample_rate = settings.sentry_traces_sample_rate;
  process.profiles_sample_rate = settings.sentry_profiles_sample_rate;
  return process;
}

}  // namespace

std::unique_ptr<ErrorReporting> ErrorReporting::start(const Settings& settings,
                                                      const std::string& version) {
  if (settings.sentry_dsn.empty()) return nullptr;
  if (settings.environment == Environment::local) {
    spdlog::info("event=sentry_off reason=\"DAIV_SANDBOX_ENVIRONMENT is local\"");
    return nullptr;
  }
  auto dsn = sentry::parse_dsn(settings.sentry_dsn);
  if (!dsn) throw std::runtime_error("DAIV_SANDBOX_SENTRY_DSN: " + dsn.error());
  const auto logs = settings.sentry_enable_logs == Switch::on ? sentry::LogForwarding::on
                                                              : sentry::LogForwarding::off;
  auto client =
      std::make_unique<sentry::Client>(describe_process(settings, version), logs, *std::move(dsn));
  return std::unique_ptr<ErrorReporting>(new ErrorReporting(std::move(client)));
}

// Errors are reported also where the log's own level is above them.
ErrorReporting::ErrorReporting(std::unique_ptr<sentry::Client> client)
    : client_(std::move(client)), sink_(sentry::make_log_sink(*client_)) {
  spdlog::logger& logger = *spdlog::default_logger();
  const auto level = logger.level();
  for (const auto& sink : logger.sinks()) sink->set_level(std::max(sink->level(), level));
  logger.set_level(std::min(level, spdlog::level::err));
  logger.sinks().push_back(sink_);
}

ErrorReporting::~ErrorReporting() {
  std::erase(spdlog::default_logger()->sinks(), sink_);
  client_->flush(flush_limit);
}

void ErrorReporting::finished(const api::FinishedRequest& request) noexcept {
  try {
    sentry::Request report;
    report.id = request.id;
    report.method = request.method;
    report.route = request.route;
    report.session = request.session;
    report.status = request.status == 0 ? client_closed_request : request.status;
    report.start = request.start;
    report.duration = std::chrono::duration_cast<std::chrono::microseconds>(request.duration);
    report.client_address = request.client_address;
    report.headers = request.fields;
    client_->request(report);
  } catch (const std::exception& error) {
    spdlog::warn("event=sentry_failed error=\"{}\"", error.what());  // a warning is no event
  }
}

}  // namespace daiv::cli
