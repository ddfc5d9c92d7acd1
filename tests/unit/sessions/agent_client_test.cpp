#include "sessions/agent_client.hpp"

#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "agent/protocol.hpp"
#include "coroutine_test.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"
#include "sessions/exec_command.hpp"
#include "sessions/seed_stream.hpp"

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace daiv::sessions {
namespace {

using namespace std::chrono_literals;

// The scripts write to connections that the front may have closed.
[[maybe_unused]] const auto ignored_signal = std::signal(SIGPIPE, SIG_IGN);

// An agent that does what its script says on one connection: a sandbox that took over its PID 1.
class ScriptedAgent {
public:
  using Script = std::function<void(const os::UniqueFd&)>;

  explicit ScriptedAgent(Script script) {
    std::string name = (fs::temp_directory_path() / "daiv-agent.XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    listener_ = os::listen_unix(path(), os::SocketKind::stream, 1);
    thread_ = std::thread([this, script = std::move(script)] {
      try {
        const os::UniqueFd client = os::accept_connection(listener_);
        script(client);
      } catch (const os::Error&) {  // the front closed first, which is its right
      }
    });
  }
  ~ScriptedAgent() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    fs::remove_all(directory_);
  }
  ScriptedAgent(const ScriptedAgent&) = delete;
  ScriptedAgent& operator=(const ScriptedAgent&) = delete;
  [[nodiscard]] std::string path() const { return directory_ + "/agent.sock"; }

private:
  std::string directory_;
  os::UniqueFd listener_;
  std::thread thread_;
};

void read_request(const os::UniqueFd& client) {
  std::array<std::byte, agent::frame_header_bytes> header{};
  os::read_full(client, header);
  const auto parsed = agent::parse_frame_header(
      {reinterpret_cast<const char*>(header.data()), header.size()}, agent::max_request_bytes);
  std::vector<std::byte> payload(parsed.length);
  os::read_full(client, payload);
}

void answer(const os::UniqueFd& client, agent::AnswerType type, std::string_view payload) {
  os::write_full(client, agent::make_frame(static_cast<std::uint8_t>(type), payload));
}

void wait_for_close(const os::UniqueFd& client) {
  std::array<std::byte, 4096> sink{};
  while (os::read_some(client, sink) > 0) {
  }
}

struct AgentClientTest : testing::Test {
  ExecOutcome exec(const ScriptedAgent& agent, std::uint64_t max_output = 1000,
                   std::chrono::seconds timeout = 0s) {
    return run_to_end(io, exec_at(agent.path(), max_output, timeout, pool));
  }
  static asio::awaitable<ExecOutcome> exec_at(std::string path, std::uint64_t max_output,
                                              std::chrono::seconds timeout,
                                              asio::thread_pool& pool) {
    AgentConnection connection = co_await AgentConnection::open(path, 1s);
    ExecPlan plan;
    plan.command = "true";
    plan.timeout = timeout;
    plan.max_output_bytes = max_output;
    plan.spool_directory = fs::temp_directory_path().string();
    ExecOutcome outcome = co_await exec_command(std::move(connection), std::move(plan), pool);
    co_return outcome;
  }
  AgentFault exec_fault(const ScriptedAgent& agent, std::uint64_t max_output = 1000) {
    try {
      exec(agent, max_output);
    } catch (const AgentError& error) {
      return error.fault();
    }
    throw std::logic_error("no fault");
  }
  asio::io_context io;
  asio::thread_pool pool{2};
};

TEST_F(AgentClientTest, CollectsTheOutputOfACommand) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    answer(client, agent::AnswerType::output, "one\n");
    answer(client, agent::AnswerType::output, "two\n");
    answer(client, agent::AnswerType::exec_done,
           agent::ExecDone{agent::ExecOutcome::exited, 3, 8, ""}.encode());
  });
  const ExecOutcome outcome = exec(agent);
  EXPECT_EQ(outcome.result.exit_code, 3);
  EXPECT_EQ(outcome.result.output->read(0, 100), "one\ntwo\n");
}

TEST_F(AgentClientTest, FramesMayArriveByteByByte) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    const std::string frames =
        agent::make_frame(static_cast<std::uint8_t>(agent::AnswerType::output), "x") +
        agent::make_frame(static_cast<std::uint8_t>(agent::AnswerType::exec_done),
                          agent::ExecDone{}.encode());
    for (const char byte : frames) os::write_full(client, std::string_view(&byte, 1));
  });
  EXPECT_EQ(exec(agent).result.output->read(0, 10), "x");
}

TEST_F(AgentClientTest, GarbageIsMalformed) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    os::write_full(client, std::string(1000, '\xff'));
    wait_for_close(client);
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::malformed);
}

TEST_F(AgentClientTest, AFrameLongerThanAllowedIsRefusedBeforeItIsRead) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    std::string header =
        agent::make_frame(static_cast<std::uint8_t>(agent::AnswerType::output), "").substr(0, 5);
    header[3] = 0x40;  // a gigabyte, of which nothing follows
    os::write_full(client, header);
    wait_for_close(client);
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::malformed);
}

TEST_F(AgentClientTest, AnAnswerOfAnotherKindIsMalformed) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    answer(client, agent::AnswerType::seed_done, agent::SeedDone{}.encode());
    wait_for_close(client);
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::malformed);
}

TEST_F(AgentClientTest, ATruncatedMessageIsMalformed) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    answer(client, agent::AnswerType::exec_done, "\x01");
    wait_for_close(client);
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::malformed);
}

TEST_F(AgentClientTest, MoreOutputThanAskedForEndsTheOperation) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    for (;;) answer(client, agent::AnswerType::output, std::string(600, 'x'));
  });
  EXPECT_EQ(exec_fault(agent, 1000), AgentFault::malformed);
}

TEST_F(AgentClientTest, ClosingEarlyIsTheSandboxsEnd) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    answer(client, agent::AnswerType::output, "so far");
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::gone);
}

TEST_F(AgentClientTest, ClosingInsideAFrameIsTheSandboxsEnd) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    os::write_full(client,
                   agent::make_frame(static_cast<std::uint8_t>(agent::AnswerType::output), "abcdef")
                       .substr(0, 7));
  });
  EXPECT_EQ(exec_fault(agent), AgentFault::gone);
}

TEST_F(AgentClientTest, NobodyListeningIsTheSandboxsEnd) {
  try {
    run_to_end(io, exec_at("/nonexistent/agent.sock", 1, 0s, pool));
    FAIL();
  } catch (const AgentError& error) {
    EXPECT_EQ(error.fault(), AgentFault::gone);
  }
}

asio::awaitable<void> receive_within(std::string path, std::chrono::milliseconds limit) {
  AgentConnection connection = co_await AgentConnection::open(path, 1s);
  co_await connection.receive(limit);
}

TEST_F(AgentClientTest, SilenceEndsAtTheDeadline) {
  const ScriptedAgent agent([](const os::UniqueFd& client) { wait_for_close(client); });
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_to_end(io, receive_within(agent.path(), 50ms));
    FAIL();
  } catch (const AgentError& error) {
    EXPECT_EQ(error.fault(), AgentFault::stalled);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

asio::awaitable<void> send_much(std::string path) {
  AgentConnection connection = co_await AgentConnection::open(path, 1s);
  co_await connection.send(1, std::string(16U << 20, 'x'), 100ms);
}

TEST_F(AgentClientTest, AnAgentThatTakesNothingIsStalled) {
  std::atomic<bool> done = false;
  const ScriptedAgent agent([&](const os::UniqueFd&) { done.wait(false); });
  try {
    run_to_end(io, send_much(agent.path()));
    ADD_FAILURE();
  } catch (const AgentError& error) {
    EXPECT_EQ(error.fault(), AgentFault::stalled);
  }
  done = true;
  done.notify_all();
}

TEST_F(AgentClientTest, AFullBacklogDoesNotBlockTheThread) {
  std::string name = (fs::temp_directory_path() / "daiv-agent.XXXXXX").string();
  const std::string directory = ::mkdtemp(name.data());
  const os::UniqueFd listener =
      os::listen_unix(directory + "/agent.sock", os::SocketKind::stream, 0);
  std::vector<os::UniqueFd> waiting;
  while (auto socket = os::try_connect_unix(directory + "/agent.sock", os::SocketKind::stream)) {
    waiting.push_back(std::move(*socket));
  }
  try {
    run_to_end(io, [](std::string path) -> asio::awaitable<void> {
      co_await AgentConnection::open(path, 50ms);
    }(directory + "/agent.sock"));
    ADD_FAILURE();
  } catch (const AgentError& error) {
    EXPECT_EQ(error.fault(), AgentFault::stalled);
  }
  fs::remove_all(directory);
}

// ---- seeds
// -----------------------------------------------------------------------------------------------------------

asio::awaitable<std::string> seed_chunks(std::string path, int chunks) {
  AgentConnection connection = co_await AgentConnection::open(path, 1s);
  SeedStream stream = co_await SeedStream::open(std::move(connection), {});
  for (int count = 0; count < chunks; ++count) {
    co_await stream.write(agent::SeedTarget::repo, std::string(1U << 20, 'x'));
  }
  co_await stream.end(agent::SeedTarget::repo);
  std::string summary = co_await stream.commit();
  co_return summary;
}

TEST_F(AgentClientTest, ASeedThatTheAgentRefusesEarlyIsNotSentOn) {
  std::atomic<bool> done = false;
  const ScriptedAgent agent([&](const os::UniqueFd& client) {
    read_request(client);
    answer(
        client, agent::AnswerType::seed_done,
        agent::SeedDone{agent::SeedOutcome::invalid_archive, agent::SeedTarget::repo, "not a tar"}
            .encode());
    done.wait(false);  // reads nothing and does not close: only the answer can end the writing
  });
  try {
    run_to_end(io, seed_chunks(agent.path(), 100));
    ADD_FAILURE();
  } catch (const SessionError& error) {
    EXPECT_EQ(error.failure(), SessionFailure::invalid_seed);
    EXPECT_STREQ(error.what(), "repo_archive is invalid: not a tar");
  }
  done = true;
  done.notify_all();
}

TEST_F(AgentClientTest, ASeedsVerdictIsReadFromAClosedConnection) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    read_request(client);
    answer(client, agent::AnswerType::seed_done,
           agent::SeedDone{agent::SeedOutcome::too_large, agent::SeedTarget::repo, "too much"}
               .encode());
  });
  try {
    run_to_end(io, seed_chunks(agent.path(), 100));
    ADD_FAILURE();
  } catch (const SessionError& error) {
    EXPECT_EQ(error.failure(), SessionFailure::too_large);
  }
}

TEST_F(AgentClientTest, AGoodSeedGivesItsSummary) {
  const ScriptedAgent agent([](const os::UniqueFd& client) {
    for (int frame = 0; frame < 1 + 2 * 4 + 2; ++frame)
      read_request(client);  // seed, chunks of 256 KiB, last, seed_end
    answer(client, agent::AnswerType::seed_done,
           agent::SeedDone{agent::SeedOutcome::seeded, {}, "1 left out"}.encode());
  });
  EXPECT_EQ(run_to_end(io, seed_chunks(agent.path(), 2)), "1 left out");
}

}  // namespace
}  // namespace daiv::sessions
