#include "sentry/log_sink.hpp"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

namespace daiv::sentry {
namespace {

Level level_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::critical) return Level::fatal;
  if (level >= spdlog::level::err) return Level::error;
  if (level >= spdlog::level::warn) return Level::warning;
  return level >= spdlog::level::info ? Level::info : Level::debug;
}

// The client has its own lock.
class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
public:
  explicit LogSink(Client& client) : client_(client) {}

private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    client_.log({message.time, level_of(message.level),
                 std::string(message.logger_name.data(), message.logger_name.size()),
                 std::string(message.payload.data(), message.payload.size())});
  }
  void flush_() override {}

  Client& client_;
};

}  // namespace

std::shared_ptr<spdlog::sinks::sink> make_log_sink(Client& client) {
  return std::make_shared<LogSink>(client);
}

}  // namespace daiv::sentry
