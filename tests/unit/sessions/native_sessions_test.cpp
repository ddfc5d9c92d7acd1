#include "sessions/native_sessions.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "agent/protocol.hpp"
#include "coroutine_test.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"
#include "sessions/environment.hpp"

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace daiv::sessions {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t uid_start = 0x70000000;

// One sandbox of the fake host: a listening socket, answered by a thread as an agent would.
class FakeSandbox {
public:
  explicit FakeSandbox(const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    fs::remove(path);
    listener_ = os::listen_unix(path, os::SocketKind::stream, 64);
    end_ = os::UniqueFd(os::check(::eventfd(0, EFD_CLOEXEC), "eventfd", "fake"));
    thread_ = std::thread([this] { accept_all(); });
  }
  ~FakeSandbox() { die(); }
  FakeSandbox(const FakeSandbox&) = delete;
  FakeSandbox& operator=(const FakeSandbox&) = delete;

  // Readable when the "process" has ended, as a pidfd is.
  [[nodiscard]] os::UniqueFd pidfd() const { return os::duplicate(end_); }

  void die() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    listener_.reset();
    const std::uint64_t one = 1;
    os::write_full(end_, {reinterpret_cast<const char*>(&one), sizeof one});
  }

private:
  void accept_all() {
    try {
      for (;;) answer(os::accept_connection(listener_));
    } catch (const os::Error&) {  // shut down
    }
  }
  static std::string read_frame(const os::UniqueFd& client, std::uint8_t& type) {
    std::array<std::byte, agent::frame_header_bytes> header{};
    if (os::read_full(client, header) < header.size()) throw os::Error(EPIPE, "read", "front");
    const auto parsed = agent::parse_frame_header(
        {reinterpret_cast<const char*>(header.data()), header.size()}, agent::max_request_bytes);
    type = parsed.type;
    std::string payload(parsed.length, '\0');
    os::read_full(client, std::as_writable_bytes(std::span(payload)));
    return payload;
  }
  static void send(const os::UniqueFd& client, agent::AnswerType type, const std::string& payload) {
    os::write_full(client, agent::make_frame(static_cast<std::uint8_t>(type), payload));
  }
  static void exec(const os::UniqueFd& client, const agent::ExecRequest& request) {
    if (request.command == "hang") {
      std::array<std::byte, 1> none{};
      os::read_some(client, none);  // until the front closes
      return;
    }
    if (request.command == "drop") return;
    agent::ExecDone done;
    if (request.command == "fail") done.code = 1;
    if (request.command == "timeout") done.outcome = agent::ExecOutcome::timed_out;
    done.output_bytes = request.command.size();
    send(client, agent::AnswerType::output, request.command);
    send(client, agent::AnswerType::exec_done, done.encode());
  }
  static void seed(const os::UniqueFd& client) {
    std::string bytes;
    for (;;) {
      std::uint8_t type = 0;
      const std::string payload = read_frame(client, type);
      if (type == static_cast<std::uint8_t>(agent::RequestType::seed_end)) break;
      bytes += agent::SeedData::decode(payload).bytes;
    }
    agent::SeedDone done;
    if (bytes == "bad")
      done = {agent::SeedOutcome::invalid_archive, agent::SeedTarget::repo, "bad archive"};
    send(client, agent::AnswerType::seed_done, done.encode());
  }
  static void answer(os::UniqueFd client) {
    try {
      std::uint8_t type = 0;
      const std::string payload = read_frame(client, type);
      if (type == static_cast<std::uint8_t>(agent::RequestType::exec))
        exec(client, agent::ExecRequest::decode(payload));
      if (type == static_cast<std::uint8_t>(agent::RequestType::seed)) seed(client);
      if (type == static_cast<std::uint8_t>(agent::RequestType::terminate))
        send(client, agent::AnswerType::done, "");
      if (type == static_cast<std::uint8_t>(agent::RequestType::fs))
        send(client, agent::AnswerType::fs, payload);
    } catch (const os::Error&) {  // the front has gone
    }
  }

  os::UniqueFd listener_;
  os::UniqueFd end_;
  std::thread thread_;
};

// The host without a kernel: it remembers what was asked of it.
class FakeHost : public SandboxHost {
public:
  explicit FakeHost(std::string runtime_dir) : runtime_dir_(std::move(runtime_dir)) {}

  Sandbox create(const SandboxSpec& spec) override {
    if (before_creation) before_creation();
    const std::scoped_lock lock(mutex_);
    if (fail_next) {
      layers_on_disk.insert(spec.request.session);
      throw HostError(*std::exchange(fail_next, std::nullopt), "no luck");
    }
    ++creations;
    last_spec = spec;
    layers_on_disk.insert(spec.request.session);
    running_[spec.request.session] = std::make_unique<FakeSandbox>(
        runtime_dir_ + "/sessions/" + spec.request.session + "/agent.sock");
    return {running_[spec.request.session]->pidfd(), listener_for(spec)};
  }
  static os::UniqueFd listener_for(const SandboxSpec& spec) {
    return spec.request.egress ? os::make_pipe().read_end : os::UniqueFd();
  }
  void kill(const std::string& session) override {
    const std::scoped_lock lock(mutex_);
    running_.erase(session);
  }
  void remove(const std::string& session) override {
    const std::scoped_lock lock(mutex_);
    running_.erase(session);
    layers_on_disk.erase(session);
  }
  std::vector<runtime::SandboxEntry> list() override {
    const std::scoped_lock lock(mutex_);
    std::vector<runtime::SandboxEntry> entries;
    for (const auto& id : layers_on_disk) entries.push_back({id, running_.contains(id), true});
    return entries;
  }
  Sandbox adopt(const std::string& session, std::uint16_t egress_port) override {
    const std::scoped_lock lock(mutex_);
    ++adoptions;
    return {running_.at(session)->pidfd(),
            egress_port != 0 ? os::make_pipe().read_end : os::UniqueFd()};
  }
  void crash(const std::string& session) {
    const std::scoped_lock lock(mutex_);
    running_.at(session)->die();
  }
  [[nodiscard]] std::size_t running() {
    const std::scoped_lock lock(mutex_);
    return running_.size();
  }

  std::function<void()> before_creation;
  std::optional<runtime::Failure> fail_next;
  std::set<std::string> layers_on_disk;
  SandboxSpec last_spec;
  int creations = 0;
  int adoptions = 0;

private:
  std::string runtime_dir_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<FakeSandbox>> running_;
};

images::Image sample_image() {
  images::Image image;
  image.id = "sha256:1";
  image.reference = "docker.io/library/x:latest";
  image.layers = {"aaaaaa"};
  image.config.environment = {"FROM_IMAGE=1"};
  return image;
}

struct NativeSessionsTest : testing::Test {
  NativeSessionsTest() {
    std::string name = (fs::temp_directory_path() / "daiv-sessions.XXXXXX").string();
    directory = ::mkdtemp(name.data());
    settings.store.database_path = directory + "/state.db";
    settings.store.runtime_dir = directory;
    settings.store.uid_start = uid_start;
    settings.store.uid_count = 4;
    settings.spool_dir = directory;
    settings.lock_wait = 50ms;
    settings.reaping = {100s, 50, 1000s};
    settings.reaper = SessionSettings::Reaper::off;
    host = std::make_unique<FakeHost>(directory);
    start();
  }
  ~NativeSessionsTest() override {
    stop();
    host.reset();
    fs::remove_all(directory);
  }
  void start() {
    sessions = std::make_unique<NativeSessions>(
        settings, *host, [this](const std::string&) { return find_image(); }, io.get_executor(),
        pool, pull_pool, [this] { return now; });
    sessions->start();
  }
  void stop() {
    run_to_end(io, sessions->shut_down());
    sessions.reset();
  }
  images::Image find_image() const {
    if (image_failure) throw images::ImageError(*image_failure, "image trouble");
    return sample_image();
  }
  std::string create(Environment environment = {}) {
    CreateOptions options;
    options.base_image = "x";
    options.environment = std::move(environment);
    return run_to_end(io, sessions->create(std::move(options)));
  }
  std::vector<CommandResult> run(const std::string& id, std::vector<std::string> commands,
                                 bool fail_fast = false) {
    return run_to_end(io, sessions->run(id, {std::move(commands), fail_fast, std::nullopt}));
  }
  template <typename Action>
  std::optional<SessionFailure> failure_of(Action action) {
    try {
      action();
    } catch (const SessionError& error) {
      return error.failure();
    }
    return std::nullopt;
  }
  void seed(const std::string& id, const std::string& bytes) {
    run_to_end(
        io,
        [](NativeSessions& all, std::string session, std::string content) -> asio::awaitable<void> {
          const auto sink = co_await all.begin_seed(session);
          co_await sink->begin(SeedField::repo);
          co_await sink->write(content);
          co_await sink->end();
          co_await sink->commit();
        }(*sessions, id, bytes));
  }

  std::string directory;
  SessionSettings settings;
  std::optional<images::ImageFailure> image_failure;
  Time now = Time(1'000'000s);
  asio::io_context io;
  asio::thread_pool pool{4};
  asio::thread_pool pull_pool{2};
  std::unique_ptr<FakeHost> host;
  std::unique_ptr<NativeSessions> sessions;
};

TEST_F(NativeSessionsTest, ACreatedSessionRunsCommands) {
  const std::string id = create({{"A", "b"}});
  const auto results = run(id, {"echo", "fail", "more"});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1].exit_code, 1);
  EXPECT_EQ(results[2].output->read(0, 100), "more");
  EXPECT_TRUE(sessions->exists(id));
  EXPECT_EQ(sessions->counts().running, 1U);
  EXPECT_EQ(host->last_spec.request.uid_base, uid_start + 65536);
  const auto config = agent::Config::decode(host->last_spec.agent_config);
  EXPECT_NE(std::find(config.environment.begin(), config.environment.end(), "A=b"),
            config.environment.end());
  EXPECT_NE(std::find(config.environment.begin(), config.environment.end(), "FROM_IMAGE=1"),
            config.environment.end());
}

TEST_F(NativeSessionsTest, FailFastAndTimeoutsSkipTheRest) {
  const std::string id = create();
  EXPECT_EQ(run(id, {"fail", "never"}, true).size(), 1U);
  const auto results = run(id, {"a", "timeout", "never"});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[1].exit_code, 124);
}

TEST_F(NativeSessionsTest, AFailedCreationLeavesNothing) {
  for (const auto& [kind, expected] : std::map<runtime::Failure, SessionFailure>{
           {runtime::Failure::invalid, SessionFailure::bad_request},
           {runtime::Failure::unsupported, SessionFailure::unavailable},
           {runtime::Failure::no_space, SessionFailure::unavailable}}) {
    host->fail_next = kind;
    EXPECT_EQ(failure_of([&] { create(); }), expected);
    EXPECT_TRUE(host->layers_on_disk.empty());
  }
  host->fail_next = runtime::Failure::internal;
  EXPECT_THROW(create(), HostError);
  EXPECT_TRUE(host->layers_on_disk.empty());
  EXPECT_TRUE(sessions->list().empty());
  EXPECT_TRUE(sessions->layers_in_use().empty());
  for (int count = 0; count < 3; ++count) create();  // every range came back
}

TEST_F(NativeSessionsTest, AnotherDaemonsUidRangeIsPassedOver) {
  host->fail_next = runtime::Failure::range_taken;
  create();
  EXPECT_EQ(host->last_spec.request.uid_base, uid_start + 2 * 65536);
}

TEST_F(NativeSessionsTest, ALayerThatWasPrunedMeanwhileIsFetchedAgain) {
  host->fail_next = runtime::Failure::not_found;
  EXPECT_TRUE(sessions->exists(create()));
}

TEST_F(NativeSessionsTest, ImageTroubleIsTheClientsOrWorthARetry) {
  image_failure = images::ImageFailure::not_found;
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::bad_request);
  image_failure = images::ImageFailure::unreachable;
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::unavailable);
  image_failure = images::ImageFailure::internal;
  EXPECT_THROW(create(), images::ImageError);
}

TEST_F(NativeSessionsTest, RangesThatRunOutAreWorthARetry) {
  for (int count = 0; count < 3; ++count) create();
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::unavailable);
}

TEST_F(NativeSessionsTest, AClosedSessionIsStartedByTheNextOperation) {
  const std::string id = create();
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_EQ(host->running(), 0U);
  EXPECT_EQ(sessions->counts().stopped, 1U);
  EXPECT_TRUE(run_to_end(io, sessions->touch(id)));
  EXPECT_EQ(host->running(), 1U);
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_EQ(run_to_end(io, sessions->fs(id, "request")), "request");
  EXPECT_EQ(host->creations, 3);
  EXPECT_EQ(host->last_spec.request.uid_base, uid_start + 65536)
      << "its files belong to this range";
}

TEST_F(NativeSessionsTest, ARemovedSessionIsGone) {
  const std::string id = create();
  run_to_end(io, sessions->close(id, CloseMode::remove));
  run_to_end(io, sessions->close(id, CloseMode::remove));
  EXPECT_FALSE(run_to_end(io, sessions->touch(id)));
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::not_found);
  EXPECT_TRUE(host->layers_on_disk.empty());
  EXPECT_TRUE(sessions->layers_in_use().empty());
}

TEST_F(NativeSessionsTest, IsSeededOnceAndOnlyBySuccess) {
  const std::string id = create();
  EXPECT_EQ(failure_of([&] { seed(id, "bad"); }), SessionFailure::invalid_seed);
  seed(id, "good");
  EXPECT_EQ(failure_of([&] { seed(id, "good"); }), SessionFailure::already_seeded);
  stop();
  start();
  EXPECT_EQ(failure_of([&] { seed(id, "good"); }), SessionFailure::already_seeded)
      << "also after a restart";
}

TEST_F(NativeSessionsTest, ARestartAdoptsWhatRuns) {
  const std::string id = create();
  stop();
  start();
  EXPECT_EQ(host->adoptions, 1);
  EXPECT_EQ(sessions->counts().running, 1U);
  EXPECT_EQ(run(id, {"still here"})[0].output->read(0, 100), "still here");
  EXPECT_EQ(host->creations, 1);
}

TEST_F(NativeSessionsTest, ARestartStopsWhatDiedAndRemovesWhatHasNoRecord) {
  const std::string id = create();
  stop();
  host->kill(id);
  host->layers_on_disk.insert("orphan");
  start();
  EXPECT_EQ(sessions->counts().stopped, 1U);
  EXPECT_FALSE(host->layers_on_disk.contains("orphan"));
  EXPECT_EQ(run(id, {"back"}).size(), 1U);
}

TEST_F(NativeSessionsTest, ASandboxThatDiedIsStartedByTheNextOperation) {
  const std::string id = create();
  host->crash(id);
  EXPECT_EQ(run(id, {"again"})[0].exit_code, 0);
  EXPECT_EQ(host->creations, 2);
}

TEST_F(NativeSessionsTest, ASandboxThatDiesUnderACommandIsToldPlainly) {
  const std::string id = create();
  const std::string other = create();
  EXPECT_EQ(failure_of([&] { run(id, {"drop"}); }), SessionFailure::unavailable);
  EXPECT_EQ(run(other, {"fine"})[0].exit_code, 0);
}

TEST_F(NativeSessionsTest, ABusySessionIsBusyAndOthersAreNot) {
  const std::string id = create();
  const std::string other = create();
  asio::cancellation_signal signal;
  bool ended = false;
  asio::co_spawn(io, sessions->run(id, {{"hang"}, false, std::nullopt}),
                 asio::bind_cancellation_slot(
                     signal.slot(), [&](const std::exception_ptr&, const auto&) { ended = true; }));
  EXPECT_EQ(run(other, {"fine"})[0].exit_code, 0);
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::busy);
  EXPECT_EQ(failure_of([&] { run_to_end(io, sessions->close(id, CloseMode::remove)); }),
            SessionFailure::busy);
  EXPECT_TRUE(run_to_end(io, sessions->touch(id))) << "whether it exists can be asked at any time";
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_EQ(run(id, {"free again"})[0].exit_code, 0);
  EXPECT_TRUE(ended);
}

TEST_F(NativeSessionsTest, AClientThatLeavesDuringCreationLeavesNoSession) {
  asio::cancellation_signal signal;
  std::optional<bool> failed;
  CreateOptions options;
  options.base_image = "x";
  host->before_creation = [&] {  // on the pool, while the client waits
    asio::post(io, [&] { signal.emit(asio::cancellation_type::terminal); });
    std::promise<void> emitted;
    asio::post(io, [&] { emitted.set_value(); });
    emitted.get_future().wait();
  };
  asio::co_spawn(io, sessions->create(std::move(options)),
                 asio::bind_cancellation_slot(
                     signal.slot(), [&](const std::exception_ptr& error, const std::string&) {
                       failed = error != nullptr;
                     }));
  io.restart();
  while (!failed) io.run_one();
  EXPECT_TRUE(*failed);
  EXPECT_TRUE(sessions->list().empty());
  EXPECT_TRUE(host->layers_on_disk.empty());
}

TEST_F(NativeSessionsTest, TheReaperRemovesByAgeButNotWhatIsInUse) {
  const std::string stopped = create();
  const std::string idle = create();
  const std::string busy = create();
  run_to_end(io, sessions->close(stopped, CloseMode::keep_warm));
  asio::cancellation_signal signal;
  asio::co_spawn(
      io, sessions->run(busy, {{"hang"}, false, std::nullopt}),
      asio::bind_cancellation_slot(signal.slot(), [](const std::exception_ptr&, const auto&) {}));
  io.restart();
  io.poll();
  now += 101s;
  run_to_end(io, sessions->reap());
  EXPECT_FALSE(sessions->exists(stopped));
  EXPECT_TRUE(sessions->exists(idle));
  now += 900s;
  run_to_end(io, sessions->reap());
  EXPECT_FALSE(sessions->exists(idle));
  EXPECT_TRUE(sessions->exists(busy));
  signal.emit(asio::cancellation_type::terminal);
  run(busy, {"true"});
}

// The proxy, as sessions see it.
class FakeGate : public EgressGate {
public:
  void open(const std::string& session, os::UniqueFd listener,
            const EgressPolicy& policy) override {
    EXPECT_TRUE(listener);
    served[session] = policy;
  }
  bool update(const std::string& session, const EgressPolicy& policy) override {
    if (!serves(session)) return false;
    served[session] = policy;
    return true;
  }
  void close(const std::string& session) override { served.erase(session); }
  [[nodiscard]] bool serves(const std::string& session) const override {
    return served.contains(session);
  }
  [[nodiscard]] agent::Trust trust() const override { return {"certificate", "01234567", "roots"}; }

  std::map<std::string, EgressPolicy> served;
};

EgressPolicy policy_for(const std::string& host) {
  EgressPolicy policy;
  policy.rules = {{host, {}, std::nullopt}};
  return policy;
}

struct EgressSessions : NativeSessionsTest {
  EgressSessions() {
    stop();
    fs::create_directory(directory + "/egress");
    settings.store.egress.gate = &gate;
    settings.store.egress.port = 8080;
    settings.store.egress.directory = directory + "/egress";
    settings.store.egress.plan_link = [](std::uint32_t uid_base) {
      return runtime::EgressLink{uid_base, uid_base + 1, 0};
    };
    start();
  }
  std::string create_with(EgressPolicy policy) {
    CreateOptions options;
    options.base_image = "x";
    options.egress = std::move(policy);
    return run_to_end(io, sessions->create(std::move(options)));
  }
  EgressUpdate update(const std::string& id, EgressPolicy policy) {
    return run_to_end(io, sessions->update_egress(id, std::move(policy)));
  }
  FakeGate gate;
};

TEST_F(EgressSessions, AreServedWhenTheCallReturns) {
  const std::string id = create_with(policy_for("a.test"));
  EXPECT_EQ(gate.served.at(id), policy_for("a.test"));
  const auto& request = host->last_spec.request;
  EXPECT_EQ(request.egress, (runtime::EgressLink{request.uid_base, request.uid_base + 1, 8080}));
  const auto config = agent::Config::decode(host->last_spec.agent_config);
  EXPECT_EQ(config.trust.certificate, "certificate");
  EXPECT_EQ(std::ranges::count_if(config.environment,
                                  [](const auto& line) { return line.starts_with("HTTP_PROXY="); }),
            1);
}

TEST_F(EgressSessions, WithoutABlockHaveNoNetwork) {
  const std::string id = create();
  EXPECT_FALSE(host->last_spec.request.egress);
  EXPECT_TRUE(gate.served.empty());
  EXPECT_EQ(update(id, policy_for("a.test")), EgressUpdate::no_egress);
}

TEST_F(EgressSessions, TakeANewPolicyWhileRunningAndWhileStopped) {
  const std::string id = create_with(policy_for("a.test"));
  EXPECT_EQ(update(id, policy_for("b.test")), EgressUpdate::done);
  EXPECT_EQ(gate.served.at(id), policy_for("b.test"));
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_FALSE(gate.serves(id));
  EXPECT_EQ(update(id, policy_for("c.test")), EgressUpdate::done);
  run(id, {"true"});
  EXPECT_EQ(gate.served.at(id), policy_for("c.test"));
  EXPECT_EQ(failure_of([&] { update("none", {}); }), SessionFailure::not_found);
}

TEST_F(EgressSessions, KeepTheirPolicyOverARestart) {
  const std::string id = create_with(policy_for("a.test"));
  update(id, policy_for("b.test"));
  stop();
  gate.served.clear();
  start();
  EXPECT_EQ(host->adoptions, 1);
  EXPECT_EQ(gate.served.at(id), policy_for("b.test"));
}

TEST_F(EgressSessions, DenyEverythingWhereTheirPolicyIsLost) {
  const std::string id = create_with(policy_for("a.test"));
  stop();
  fs::remove(directory + "/egress/" + id);
  start();
  EXPECT_EQ(gate.served.at(id), EgressPolicy{});
}

TEST_F(EgressSessions, WithoutTheirProxyAnswerThatARetryMayHelp) {
  const std::string id = create_with(policy_for("a.test"));
  gate.served.clear();
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::unavailable);
  EXPECT_EQ(update(id, policy_for("b.test")), EgressUpdate::not_served);
}

TEST_F(EgressSessions, LeaveNoPolicyBehind) {
  const std::string id = create_with(policy_for("a.test"));
  host->fail_next = runtime::Failure::internal;
  EXPECT_THROW(create_with(policy_for("b.test")), HostError);
  run_to_end(io, sessions->close(id, CloseMode::remove));
  EXPECT_TRUE(fs::is_empty(directory + "/egress"));
  EXPECT_TRUE(gate.served.empty());
}

TEST_F(NativeSessionsTest, EgressWithoutAProxyIsTheClientsMistake) {
  CreateOptions options;
  options.base_image = "x";
  options.egress = EgressPolicy{};
  EXPECT_EQ(failure_of([&] { run_to_end(io, sessions->create(options)); }),
            SessionFailure::bad_request);
}

}  // namespace
}  // namespace daiv::sessions
