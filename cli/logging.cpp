#include "cli/logging.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cli/journal_sink.hpp"

namespace daiv::cli {
namespace {

spdlog::level::level_enum translate(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::critical:
      return spdlog::level::critical;
  }
  return spdlog::level::info;
}

// %* in a pattern: the message as the members of a JSON object. A message that is an object itself
// gives its members.
class JsonMembers : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text(message.payload.data(), message.payload.size());
    std::string members;
    if (text.starts_with('{') && nlohmann::json::accept(text) && text != "{}") {
      members = text.substr(1, text.size() - 2);
    } else {
      members = "\"message\":" +
                nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    out.append(members.data(), members.data() + members.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMembers>();
  }
};

}  // namespace

void set_up_logging(LogLevel level, LogFormat format) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  const bool journal = is_journal_stream(stream == nullptr ? "" : stream, STDERR_FILENO);
  const bool fields = journal && format == LogFormat::text;
  auto logger = std::make_shared<spdlog::logger>(
      "daiv-sandbox",
      fields ? make_journal_sink() : std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JsonMembers>('*');
  formatter->set_pattern(format == LogFormat::json
                             ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})"
                             : "%Y-%m-%dT%H:%M:%S.%e %^%L%$ %v");
  logger->set_formatter(std::move(formatter));
  logger->set_level(translate(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace daiv::cli
