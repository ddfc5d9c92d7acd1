#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "sessions/native_sessions.hpp"

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
  const auto sessions = store_.all();
  std::vector<ReaperView> views;
  for (const auto& session : sessions) {
    views.push_back(
        {&session->record, session->lock.held() ? Activity::in_flight : Activity::idle});
  }
  const Time begin = store_.now();
  const std::vector<Removal> plan = plan_reaping(views, settings_.reaping, begin);
  for (const Removal& removal : plan) {
    const auto session = store_.find(removal.id);
    if (!session) continue;
    // An operation may have come since the plan was made; then it is in use again and stays.
    const auto hold = session->lock.try_acquire();
    if (!hold || session->record.last_used > begin) continue;
    spdlog::info("session={} event=reaped reason=\"{}\"", removal.id, removal.reason);
    co_await store_.remove(session);
  }
}

}  // namespace daiv::sessions
