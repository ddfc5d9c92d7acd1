#include "cli/journal_sink.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "os/error.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {
namespace {

// Datagrams of this size pass at the default net.core.wmem_max; longer entries would need a memfd.
constexpr std::size_t max_message_bytes = 48U << 10;

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> searched{{
    {"request", "DAIV_REQUEST"},
    {"session", "DAIV_SESSION"},
    {"method", "DAIV_METHOD"},
    {"route", "DAIV_ROUTE"},
    {"status", "DAIV_STATUS"},
    {"duration_ms", "DAIV_DURATION_MS"},
    {"event", "DAIV_EVENT"},
}};

// A value of several lines is sent with its length (as the protocol has it, little-endian).
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  if (!value.contains('\n')) {
    out += '=';
  } else {
    static_assert(std::endian::native == std::endian::little);
    const std::uint64_t size = value.size();
    std::array<char, sizeof size> bytes{};
    std::memcpy(bytes.data(), &size, sizeof size);
    out += '\n';
    out.append(bytes.data(), bytes.size());
  }
  out += value;
  out += '\n';
}

// syslog(3).
char priority(spdlog::level::level_enum level) {
  if (level >= spdlog::level::critical) return '2';
  if (level >= spdlog::level::err) return '3';
  if (level >= spdlog::level::warn) return '4';
  return level >= spdlog::level::info ? '6' : '7';
}

class JournalSink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit JournalSink(const std::string& path)
      : socket_(os::check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket", path)) {
    address_.sun_family = AF_UNIX;
    path.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }

private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text = std::string_view(message.payload.data(), message.payload.size())
                                      .substr(0, max_message_bytes);
    std::string entry;
    append_field(entry, "MESSAGE", text);
    const char level = priority(message.level);
    append_field(entry, "PRIORITY", {&level, 1});
    append_field(entry, "SYSLOG_IDENTIFIER", "daiv-sandbox");
    entry += journal_fields(text);
    // The address with each: journald may have been started anew.
    const ssize_t sent = os::retry_eintr([&] {
      return ::sendto(socket_.get(), entry.data(), entry.size(), MSG_NOSIGNAL,
                      reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
    });
    if (sent < 0) fmt::print(stderr, "<{}>{}\n", priority(message.level), text);
  }
  void flush_() override {}

  os::UniqueFd socket_;
  sockaddr_un address_{};
};

}  // namespace

bool is_journal_stream(std::string_view journal_stream, int fd) {
  struct stat status{};
  if (journal_stream.empty() || ::fstat(fd, &status) != 0) return false;
  return journal_stream == fmt::format("{}:{}", status.st_dev, status.st_ino);
}

std::string journal_fields(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    const std::size_t equals = line.find_first_of("= ");
    if (equals == std::string_view::npos || line[equals] == ' ') break;
    const std::string_view key = line.substr(0, equals);
    if (key == "error" || key == "reason") break;
    line.remove_prefix(equals + 1);
    const bool quoted = line.starts_with('"');
    if (quoted) line.remove_prefix(1);
    const std::size_t end = std::min(line.find(quoted ? '"' : ' '), line.size());
    const auto* known = std::ranges::find(searched, key, [](const auto& one) { return one.first; });
    if (known != searched.end() && end > 0) append_field(out, known->second, line.substr(0, end));
    line.remove_prefix(std::min(end + (quoted ? 2U : 1U), line.size()));
  }
  return out;
}

std::shared_ptr<spdlog::sinks::sink> make_journal_sink(const std::string& socket_path) {
  return std::make_shared<JournalSink>(socket_path);
}

}  // namespace daiv::cli
