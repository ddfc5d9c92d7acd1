#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "sessions/redis/client.hpp"
#include "sessions/redis/locks.hpp"
#include "sessions/redis/url.hpp"
#include "sessions/session_record.hpp"
#include "sessions/session_service.hpp"
#include "sessions/task_group.hpp"

namespace daiv::sessions {

// Redis is away: for a client, what a retry may clear.
class SharingAway : public SessionError {
public:
  explicit SharingAway(const std::string& why)
      : SessionError(SessionFailure::unavailable,
                     "the locks of sessions can't be reached: " + why) {}
};

struct SharedSettings {
  redis::Url redis;
  std::string identity_file;  // made where it is missing
  std::chrono::milliseconds lock_ttl{900000};
  std::chrono::milliseconds lock_refresh{30000};
  std::chrono::seconds reaper_interval{600};
  std::chrono::seconds running_max_idle{14400};
};

// What daemons that share a Redis tell each other, in the keys of the Docker variant:
//   daiv-sandbox:session-lock:ID      who works on a session
//   daiv-sandbox:session-activity:ID  when it was last used, Unix seconds as decimal text
//   daiv-sandbox:reaper-leader        who sweeps
// Used on the io thread. Uses are told in the background, and dropped where Redis is away.
class SharedSessions {
public:
  using Turn = redis::Locks::Hold;

  // Throws os::Error, RedisError; does not connect.
  SharedSessions(SharedSettings settings, boost::asio::any_io_executor executor);
  SharedSessions(const SharedSessions&) = delete;
  SharedSessions& operator=(const SharedSessions&) = delete;

  // The lock of a session, whose lock in this process the caller holds. Empty where others hold it
  // for longer than `wait`. Throws SharingAway.
  boost::asio::awaitable<std::optional<Turn>> take_turn(std::string id,
                                                        std::chrono::milliseconds wait);
  // The right to sweep; empty where others sweep for longer than a reaper's interval. Throws
  // SharingAway.
  boost::asio::awaitable<std::optional<Turn>> lead();

  void note_use(const std::string& id, Time when);
  // Empty where nobody has told. Throws SharingAway.
  boost::asio::awaitable<std::optional<Time>> last_use(std::string id);
  void forget(const std::string& id);

  // Returns when everything is told and given back.
  boost::asio::awaitable<void> shut_down();

private:
  boost::asio::awaitable<void> tell(std::vector<std::string> command);

  SharedSettings settings_;
  redis::Client client_;
  redis::Locks locks_;
  TaskGroup telling_;
};

}  // namespace daiv::sessions
