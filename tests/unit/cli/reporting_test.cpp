#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <future>
#include <sstream>

#include "cli/error_reporting.hpp"
#include "cli/journal_sink.hpp"
#include "cli/pull_metrics.hpp"
#include "os/error.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {
namespace {

// Takes one envelope after the other on loopback, each on a connection of its own.
class Receiver {
public:
  Receiver() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    os::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), "bind", "");
    os::check(::listen(listener_.get(), 8), "listen", "");
    os::check(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size),
              "getsockname", "");
    port_ = ntohs(address.sin_port);
  }

  [[nodiscard]] std::string dsn() const {
    return "http://thekey@127.0.0.1:" + std::to_string(port_) + "/42";
  }

  std::string take() {
    const os::UniqueFd client(
        os::check(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept4", ""));
    std::string request;
    std::array<char, 4096> buffer{};
    while (!complete(request)) {
      const ssize_t count = ::read(client.get(), buffer.data(), buffer.size());
      if (count <= 0) break;
      request.append(buffer.data(), static_cast<std::size_t>(count));
    }
    constexpr std::string_view ok =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    EXPECT_EQ(::write(client.get(), ok.data(), ok.size()), static_cast<ssize_t>(ok.size()));
    return request;
  }

private:
  static bool complete(const std::string& request) {
    const auto head = request.find("\r\n\r\n");
    const auto length = request.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() >= head + 4 + std::stoul(request.substr(length + 16));
  }

  os::UniqueFd listener_;
  std::uint16_t port_ = 0;
};

class ErrorReportingTest : public ::testing::Test {
protected:
  ErrorReportingTest() {
    settings_.environment = Environment::production;
    settings_.sentry_dsn = receiver_.dsn();
    sink_ = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("daiv-sandbox", sink_));
  }

  static api::FinishedRequest finished(const api::HeaderFields& fields) {
    return {"r1",  "POST", "/session/{session_id}/",     "s1",
            200,   {},     std::chrono::milliseconds(5), "192.0.2.7",
            fields};
  }

  Receiver receiver_;
  Settings settings_;
  std::ostringstream lines_;
  std::shared_ptr<spdlog::sinks::sink> sink_;
};

TEST_F(ErrorReportingTest, AnErrorInTheLogIsAnEvent) {
  auto reporting = ErrorReporting::start(settings_, "1.2.3");
  ASSERT_NE(reporting, nullptr);
  spdlog::error("request=r7 route=/x error=it broke");
  const std::string request = receiver_.take();
  EXPECT_TRUE(request.contains("sentry_key=thekey"));
  EXPECT_TRUE(request.contains("\"type\":\"event\""));
  EXPECT_TRUE(request.contains("request=r7 route=/x error=it broke"));
  EXPECT_TRUE(request.contains("daiv-sandbox@1.2.3"));
}

TEST_F(ErrorReportingTest, AnErrorBelowTheLogsOwnLevelIsAnEventAndNoLine) {
  spdlog::default_logger()->set_level(spdlog::level::critical);
  auto reporting = ErrorReporting::start(settings_, "1");
  spdlog::warn("quiet");
  spdlog::error("loud");
  EXPECT_TRUE(receiver_.take().contains("loud"));
  EXPECT_EQ(lines_.str(), "");
}

TEST_F(ErrorReportingTest, TheEndSendsWhatIsLeftAndLeavesTheLog) {
  settings_.sentry_enable_logs = Switch::on;
  auto reporting = ErrorReporting::start(settings_, "1");
  spdlog::info("last words");
  auto taken = std::async(std::launch::async, [this] { return receiver_.take(); });
  reporting.reset();
  EXPECT_TRUE(taken.get().contains("last words"));
  spdlog::info("after");  // would reach a client that is gone
  EXPECT_EQ(spdlog::default_logger()->sinks().size(), 1U);
}

TEST_F(ErrorReportingTest, TheEndWaitsNoLongerThanTwoSeconds) {
  settings_.sentry_enable_logs = Switch::on;
  auto reporting = ErrorReporting::start(settings_, "1");  // the receiver takes nothing
  spdlog::info("unheard");
  const auto start = std::chrono::steady_clock::now();
  reporting.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2900));
}

TEST_F(ErrorReportingTest, ARequestIsATransactionWithoutAddressAndHeaders) {
  settings_.sentry_traces_sample_rate = 1;
  auto reporting = ErrorReporting::start(settings_, "1");
  const api::HeaderFields fields{{"X-API-Key", "hush"}, {"User-Agent", "agent-name"}};
  reporting->finished(finished(fields));
  const std::string request = receiver_.take();
  EXPECT_TRUE(request.contains("POST /session/{session_id}/"));
  EXPECT_TRUE(request.contains("\"request_id\":\"r1\""));
  for (const char* hidden : {"192.0.2.7", "agent-name", "hush"})
    EXPECT_FALSE(request.contains(hidden)) << hidden;
}

TEST_F(ErrorReportingTest, PersonalDataGoesOutWhereItIsAskedForButNoKey) {
  settings_.sentry_traces_sample_rate = 1;
  settings_.sentry_send_default_pii = Switch::on;
  auto reporting = ErrorReporting::start(settings_, "1");
  const api::HeaderFields fields{{"X-API-Key", "hush"}, {"User-Agent", "agent-name"}};
  reporting->finished(finished(fields));
  const std::string request = receiver_.take();
  EXPECT_TRUE(request.contains("192.0.2.7"));
  EXPECT_TRUE(request.contains("agent-name"));
  EXPECT_FALSE(request.contains("hush"));
}

TEST_F(ErrorReportingTest, IsOffLocallyAndWithoutDsn) {
  settings_.environment = Environment::local;
  EXPECT_EQ(ErrorReporting::start(settings_, "1"), nullptr);
  settings_.environment = Environment::production;
  settings_.sentry_dsn.clear();
  EXPECT_EQ(ErrorReporting::start(settings_, "1"), nullptr);
}

TEST(SentryDsn, ABadOneStopsTheStartAndIsNotRepeated) {
  Settings settings;
  settings.api_key = "k";
  settings.sentry_dsn = "https://secretkey@/";
  std::string all;
  for (const std::string& conflict : find_conflicts(settings)) all += conflict + "\n";
  EXPECT_TRUE(all.contains("DAIV_SANDBOX_SENTRY_DSN")) << all;
  EXPECT_FALSE(all.contains("secretkey")) << all;
}

// journald's side of its socket.
class Journal {
public:
  Journal() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    os::check(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "bind",
              path);
  }
  ~Journal() { ::unlink(path.c_str()); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::string take() {
    std::string entry(1U << 17, '\0');
    const ssize_t size = ::recv(socket_.get(), entry.data(), entry.size(), MSG_DONTWAIT);
    entry.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return entry;
  }

  const std::string path = testing::TempDir() + "journal-" + std::to_string(getpid()) + ".sock";

private:
  os::UniqueFd socket_;
};

TEST(JournalSink, SendsOneEntryWithItsFields) {
  Journal journal;
  spdlog::logger logger("daiv-sandbox", make_journal_sink(journal.path));
  logger.info("request=4f method=POST route=/session/{session_id}/ session=s-1 status=200 bytes=7");
  EXPECT_EQ(journal.take(),
            "MESSAGE=request=4f method=POST route=/session/{session_id}/ session=s-1 status=200 "
            "bytes=7\n"
            "PRIORITY=6\nSYSLOG_IDENTIFIER=daiv-sandbox\n"
            "DAIV_REQUEST=4f\nDAIV_METHOD=POST\nDAIV_ROUTE=/session/{session_id}/\n"
            "DAIV_SESSION=s-1\nDAIV_STATUS=200\n");
  logger.error("it broke");
  EXPECT_TRUE(journal.take().contains("PRIORITY=3\n"));
}

TEST(JournalSink, LinesInALineMakeNoFields) {
  Journal journal;
  spdlog::logger logger("daiv-sandbox", make_journal_sink(journal.path));
  logger.error("a\nPRIORITY=0\n");
  const std::string text = "a\nPRIORITY=0\n";
  EXPECT_TRUE(journal.take().starts_with(
      std::string("MESSAGE\n") + std::string("\x0d\0\0\0\0\0\0\0", 8) + text.substr(0, 13)));
}

TEST(JournalSink, LongLinesAreCutAndStillArrive) {
  Journal journal;
  spdlog::logger logger("daiv-sandbox", make_journal_sink(journal.path));
  logger.info(std::string(1U << 20, 'x'));
  EXPECT_GT(journal.take().size(), 40'000U);
}

TEST(JournalSink, GoesToStandardErrorWhereNobodyListens) {
  spdlog::logger logger("daiv-sandbox", make_journal_sink("/nonexistent/socket"));
  ::testing::internal::CaptureStderr();
  logger.warn("hello");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "<4>hello\n");
}

TEST(JournalFields, StopAtWhatOthersSaid) {
  EXPECT_EQ(journal_fields("event=pulled session=a"), "DAIV_EVENT=pulled\nDAIV_SESSION=a\n");
  EXPECT_EQ(journal_fields("request=1 error=bad session=evil"), "DAIV_REQUEST=1\n");
  EXPECT_EQ(journal_fields("event=x note=\"a session=evil\" status=1"),
            "DAIV_EVENT=x\nDAIV_STATUS=1\n");
  EXPECT_EQ(journal_fields("accept: session=evil"), "");
  EXPECT_EQ(journal_fields("session= status=\"\""), "");
}

TEST(JournalStream, IsTheDescriptorThatSystemdNamed) {
  struct stat status{};
  ASSERT_EQ(::fstat(STDERR_FILENO, &status), 0);
  const std::string name = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  EXPECT_TRUE(is_journal_stream(name, STDERR_FILENO));
  EXPECT_FALSE(is_journal_stream(name + "0", STDERR_FILENO));
  EXPECT_FALSE(is_journal_stream("", STDERR_FILENO));
}

using images::ImageError;
using images::ImageFailure;
using images::PullEvent;

TEST(PullMetrics, CountPullsWithTheirBytesAndNotImagesThatWereThere) {
  PullMetrics metrics;
  metrics.watch({}, [](const images::PullObserver&) { return images::Image{}; });
  EXPECT_FALSE(metrics.expose().contains("outcome="));
  int passed_on = 0;
  metrics.watch([&](const PullEvent&) { ++passed_on; },
                [](const images::PullObserver& tell) {
                  tell({"", PullEvent::Stage::resolving, 0, 0});
                  tell({"sha256:a", PullEvent::Stage::downloading, 10, 30});
                  tell({"sha256:a", PullEvent::Stage::downloading, 30, 30});
                  tell({"sha256:b", PullEvent::Stage::exists, 100, 100});
                  return images::Image{};
                });
  const std::string text = metrics.expose();
  EXPECT_TRUE(text.contains("daiv_sandbox_image_pulls_total{outcome=\"ok\"} 1\n")) << text;
  EXPECT_TRUE(text.contains("daiv_sandbox_image_pull_bytes_total 30\n")) << text;
  EXPECT_TRUE(text.contains("pull_duration_seconds_count{source=\"registry\"} 1\n")) << text;
  EXPECT_EQ(passed_on, 4);
}

TEST(PullMetrics, TellFailuresByKind) {
  PullMetrics metrics;
  const auto fail = [](const images::PullObserver&) -> images::Image {
    throw ImageError(ImageFailure::rate_limited, "slow down");
  };
  EXPECT_THROW(metrics.watch({}, fail), ImageError);
  EXPECT_TRUE(
      metrics.expose().contains("daiv_sandbox_image_pulls_total{outcome=\"rate_limited\"} 1\n"));
}

}  // namespace
}  // namespace daiv::cli
