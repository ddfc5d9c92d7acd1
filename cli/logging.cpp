#include "cli/logging.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>

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

// %& in a pattern: the journal's number for the level (syslog(3)).
class JournalLevel : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    out.push_back(number(message.level));
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalLevel>();
  }

private:
  static char number(spdlog::level::level_enum level) {
    if (level >= spdlog::level::critical) return '2';
    if (level >= spdlog::level::err) return '3';
    if (level >= spdlog::level::warn) return '4';
    return level >= spdlog::level::info ? '6' : '7';
  }
};

}  // namespace

void set_up_logging(LogLevel level, LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("daiv-sandbox",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JsonMembers>('*').add_flag<JournalLevel>('&');
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  if (format == LogFormat::json) {
    formatter->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})");
  } else {
    formatter->set_pattern(journal ? "<%&>%v" : "%Y-%m-%dT%H:%M:%S.%e %^%L%$ %v");
  }
  logger->set_formatter(std::move(formatter));
  logger->set_level(translate(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace daiv::cli
