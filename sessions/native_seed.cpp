#include <spdlog/spdlog.h>

#include <utility>

#include "os/crash_point.hpp"
#include "sessions/deadline.hpp"
#include "sessions/failures.hpp"
#include "sessions/native_sessions.hpp"
#include "sessions/seed_stream.hpp"
#include "sessions/session_lease.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

agent::SeedTarget target_of(SeedField field) {
  return field == SeedField::repo ? agent::SeedTarget::repo : agent::SeedTarget::skills;
}

}  // namespace

// A seed under way; holds the session until it is committed or dropped.
class NativeSessions::Sink : public SeedSink {
public:
  Sink(SessionStore& store, std::shared_ptr<SessionLease> lease, SeedStream stream)
      : store_(store), lease_(std::move(lease)), stream_(std::move(stream)) {}

  asio::awaitable<void> begin(SeedField field) override {
    target_ = target_of(field);
    co_return;
  }
  asio::awaitable<void> write(std::string bytes) override {
    co_await translated(stream_.write(target_, std::move(bytes)));
  }
  asio::awaitable<void> end() override { co_await translated(stream_.end(target_)); }
  asio::awaitable<void> commit() override { co_await translated(uninterrupted(commit_whole())); }

private:
  // The marker is written once the seed is visible, and only then: a failed seed may be tried
  // again.
  asio::awaitable<void> commit_whole() {
    const std::string summary = co_await stream_.commit();
    os::crash_point("front.seed.visible");
    const auto& session = lease_->session();
    if (!summary.empty())
      spdlog::warn("session={} event=seed_sanitised summary=\"{}\"", session->record.id, summary);
    session->record.seeded = Seeded::yes;
    co_await store_.save(session);
    os::crash_point("front.seed.marked");
  }

  SessionStore& store_;
  std::shared_ptr<SessionLease> lease_;
  SeedStream stream_;
  agent::SeedTarget target_ = agent::SeedTarget::repo;
};

asio::awaitable<SeedStream> NativeSessions::open_seed(std::shared_ptr<Session> session) {
  AgentConnection connection = co_await open_agent(std::move(session));
  agent::SeedRequest limits;
  limits.max_unpacked_bytes = settings_.seed_max_bytes;
  limits.max_entries = settings_.seed_max_entries;
  SeedStream stream = co_await SeedStream::open(std::move(connection), limits);
  co_return stream;
}

asio::awaitable<std::unique_ptr<SeedSink>> NativeSessions::begin_seed(std::string id) {
  auto lease = co_await enter(std::move(id));
  if (lease->session()->record.seeded == Seeded::yes) {
    throw SessionError(SessionFailure::already_seeded, "Session already seeded");
  }
  SeedStream stream = co_await translated(open_seed(lease->session()));
  std::unique_ptr<SeedSink> sink =
      std::make_unique<Sink>(store_, std::move(lease), std::move(stream));
  co_return sink;
}

}  // namespace daiv::sessions
