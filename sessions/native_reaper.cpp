#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "sessions/native_sessions.hpp"
#include "sessions/session_lease.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {

void NativeSessions::start() {
  store_.reconcile();
  background_.spawn("reaper", reap_forever());
}

asio::awaitable<void> NativeSessions::shut_down() {
  background_.cancel();
  co_await background_.join();
  try {
    co_await store_.tidy();
  } catch (const std::exception& error) {  // the broker may be what ended; the next start tidies up
    spdlog::warn("event=tidy_failed error=\"{}\"", error.what());
  }
  co_await store_.shut_down();
  if (shared_) co_await shared_->shut_down();
}

asio::awaitable<void> NativeSessions::reap_forever() {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    timer.expires_after(settings_.reaper_interval);
    co_await timer.async_wait(asio::use_awaitable);
    try {
      if (settings_.reaper == SessionSettings::Reaper::on) co_await reap();
      co_await store_.tidy();
    } catch (const boost::system::system_error&) {
      throw;                                 // its own cancellation
    } catch (const std::exception& error) {  // one bad sweep is no reason to stop sweeping
      spdlog::error("event=sweep_failed error=\"{}\"", error.what());
    }
  }
}

asio::awaitable<void> NativeSessions::reap() {
  if (!shared_) {
    co_await sweep();
    co_return;
  }
  try {
    const std::optional<SharedSessions::Turn> lead = co_await shared_->lead();
    if (lead) {
      co_await sweep();
    } else {
      spdlog::info("event=sweep_left_out reason=\"other daemons sweep all the time\"");
    }
  } catch (const SharingAway&) {  // logged by the client, once
  }
}

asio::awaitable<void> NativeSessions::sweep() {
  const auto sessions = store_.all();
  std::vector<ReaperView> views;
  views.reserve(sessions.size());
  for (const auto& session : sessions) {
    views.push_back(
        {&session->record, session->lock.held() ? Activity::in_flight : Activity::idle});
  }
  const Time begin = store_.now();
  const std::vector<Removal> plan = plan_reaping(views, settings_.reaping, begin);
  for (const Removal& removal : plan) {
    try {
      co_await reap_session(removal, begin);
    } catch (const boost::system::system_error&) {
      throw;  // its own cancellation
    } catch (const SharingAway&) {
      throw;                                 // nobody knows any more whether a session is in use
    } catch (const std::exception& error) {  // the others are reaped all the same
      spdlog::error("session={} event=reaping_failed error=\"{}\"", removal.id, error.what());
    }
  }
}

// An operation may have come since the plan was made, here or at another daemon: then the session
// is in use and stays.
asio::awaitable<void> NativeSessions::reap_session(Removal removal, Time begin) {
  const auto session = store_.find(removal.id);
  if (!session) co_return;
  auto hold = session->lock.try_acquire();
  if (!hold || session->record.last_used > begin) co_return;
  if (!shared_) {
    co_await remove_reaped(session, std::move(removal.reason));
    co_return;
  }
  std::optional<SharedSessions::Turn> turn =
      co_await shared_->take_turn(removal.id, std::chrono::milliseconds(0));
  if (!turn) co_return;
  turn->keep(std::make_shared<LocalTurn>(session, std::move(*hold)));
  const std::optional<Time> used = co_await shared_->last_use(removal.id);
  // Whole seconds are told.
  if (used && *used > session->record.last_used + std::chrono::seconds(1)) {
    session->record.last_used = std::min(*used, store_.now());  // the next sweep plans with it
    co_return;
  }
  co_await remove_reaped(session, std::move(removal.reason));
  shared_->forget(removal.id);
}

asio::awaitable<void> NativeSessions::remove_reaped(std::shared_ptr<Session> session,
                                                    std::string reason) {
  spdlog::info("session={} event=reaped reason=\"{}\"", session->record.id, reason);
  co_await store_.remove(std::move(session));
}

}  // namespace daiv::sessions
