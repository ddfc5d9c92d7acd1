#include "sessions/shared_sessions.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/names.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

constexpr std::chrono::seconds shortest_memory{3600};
constexpr std::size_t max_identity_bytes = 64;

std::string lock_key(const std::string& id) { return "daiv-sandbox:session-lock:" + id; }
std::string activity_key(const std::string& id) { return "daiv-sandbox:session-activity:" + id; }

// Tells this daemon from others also after its restart. Cut short by a crash, it is made anew.
std::string load_identity(const std::string& path) {
  try {
    std::string identity = os::read_file(path, max_identity_bytes);
    if (runtime::is_session_id(identity)) return identity;
  } catch (const os::Error& error) {
    if (error.error_number() != ENOENT) throw;
  }
  std::string identity = make_session_id();
  os::write_full(os::open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600), identity);
  return identity;
}

// Whole seconds: what reads them as a fraction understands them too.
std::string format_time(Time when) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch());
  return std::to_string(seconds.count());
}

std::optional<Time> parse_time(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double most = 1e11;  // the year 5138
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds < most))
    return std::nullopt;
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace

SharedSessions::SharedSessions(SharedSettings settings, asio::any_io_executor executor)
    : settings_(std::move(settings)),
      client_(settings_.redis),
      locks_(client_, executor, load_identity(settings_.identity_file), settings_.lock_refresh),
      telling_(executor) {}

asio::awaitable<std::optional<SharedSessions::Turn>> SharedSessions::take_turn(
    std::string id, std::chrono::milliseconds wait) {
  try {
    std::optional<Turn> turn = co_await locks_.acquire(lock_key(id), settings_.lock_ttl, wait);
    co_return turn;
  } catch (const redis::RedisError& error) {
    throw SharingAway(error.what());
  }
}

asio::awaitable<std::optional<SharedSessions::Turn>> SharedSessions::lead() {
  const auto interval = settings_.reaper_interval;
  try {
    std::optional<Turn> turn =
        co_await locks_.acquire("daiv-sandbox:reaper-leader", interval, interval);
    co_return turn;
  } catch (const redis::RedisError& error) {
    throw SharingAway(error.what());
  }
}

void SharedSessions::note_use(const std::string& id, Time when) {
  const auto memory = std::max(2 * settings_.running_max_idle, shortest_memory);
  telling_.spawn("note use of " + id, tell({"SET", activity_key(id), format_time(when), "EX",
                                            std::to_string(memory.count())}));
}

void SharedSessions::forget(const std::string& id) {
  telling_.spawn("forget " + id, tell({"DEL", activity_key(id)}));
}

asio::awaitable<void> SharedSessions::tell(std::vector<std::string> command) {
  try {
    co_await client_.command(std::move(command));
  } catch (const redis::RedisError&) {  // logged by the client
  }
}

asio::awaitable<std::optional<Time>> SharedSessions::last_use(std::string id) {
  std::vector<std::string> question{"GET", activity_key(id)};
  try {
    const redis::Reply reply = co_await client_.command(std::move(question));
    co_return reply.kind == redis::Reply::Kind::text ? parse_time(reply.text) : std::nullopt;
  } catch (const redis::RedisError& error) {
    throw SharingAway(error.what());
  }
}

asio::awaitable<void> SharedSessions::shut_down() {
  co_await telling_.join();
  co_await locks_.shut_down();
}

}  // namespace daiv::sessions
