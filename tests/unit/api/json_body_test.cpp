#include "api/json_body.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "api/extensions.hpp"
#include "api/models.hpp"
#include "fake_service.hpp"

namespace daiv::api::test {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// A client that has sent all it will.
class SentBytes final : public Stream {
public:
  explicit SentBytes(std::string bytes) : bytes_(std::move(bytes)) {}

  asio::awaitable<ReadResult> read_some(char* data, std::size_t size, milliseconds) override {
    const std::size_t count = bytes_.copy(data, size, used_);
    used_ += count;
    co_return ReadResult{count == 0 ? ReadEnd::closed : ReadEnd::data, count};
  }
  asio::awaitable<WriteEnd> write(std::string_view, milliseconds) override {
    co_return WriteEnd::written;
  }
  asio::awaitable<void> finish_writing(milliseconds) override { co_return; }
  [[nodiscard]] std::string_view scheme() const noexcept override { return "http"; }
  [[nodiscard]] std::string peer_address() const override { return ""; }

private:
  std::string bytes_;
  std::size_t used_ = 0;
};

std::string body_of(std::size_t size) {
  const std::string_view begin = R"({"commands":[")";
  return std::string(begin) + std::string(size - begin.size() - 3, 'x') + "\"]}";
}

// Where a body was read, and what the io thread did meanwhile.
struct Outcome {
  std::thread::id converter;
  bool io_thread_served = false;
  std::size_t characters = 0;
};

class JsonBodyTest : public testing::Test {
protected:
  // Reads a body of `size` bytes on this thread as the io thread.
  Outcome read(std::size_t size) {
    const std::string body = body_of(size);
    SentBytes stream(body);
    RequestParser parser;
    std::string none;
    static_cast<void>(
        parser.feed("POST /session/s/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\n"
                    "Content-Type: application/json\r\nContent-Length: " +
                        std::to_string(size) + "\r\n\r\n",
                    none));
    Wire wire{stream, ""};
    Exchange exchange(wire, parser, settings_, bodies_);
    Outcome outcome;
    const auto convert = [this](Json& value) { return look_at(value); };
    asio::co_spawn(io_, receive(exchange, convert, outcome), [](const std::exception_ptr& error) {
      if (error) std::rethrow_exception(error);
    });
    io_.restart();
    io_.run();
    return outcome;
  }

private:
  template <typename Convert>
  asio::awaitable<void> receive(Exchange& exchange, Convert convert, Outcome& outcome) {
    outcome = co_await read_json_as(context_, exchange, run_model(), settings_.limits.max_run_bytes,
                                    convert);
  }

  // Waits until the io thread has served somebody else, which it can't where this runs on it.
  Outcome look_at(const Json& value) {
    Outcome outcome;
    outcome.converter = std::this_thread::get_id();
    outcome.characters = value.find("commands")->array()->front().string()->size();
    if (outcome.converter == io_thread_) return outcome;
    std::promise<void> served;
    asio::post(io_, [&served] { served.set_value(); });
    const auto state = served.get_future().wait_for(std::chrono::seconds(60));
    outcome.io_thread_served = state == std::future_status::ready;
    return outcome;
  }

protected:
  const std::thread::id io_thread_ = std::this_thread::get_id();

private:
  static ServerSettings keyed() {
    ServerSettings settings;
    settings.api_key = "key";
    return settings;
  }

  asio::io_context io_{1};
  asio::thread_pool pool_{1};
  asio::thread_pool large_bodies_{1};
  ServerSettings settings_ = keyed();
  FakeService service_;
  Metrics metrics_;
  OperationMetrics operations_;
  Extensions extensions_;
  BodyBudget bodies_{64U << 20};
  Context context_{settings_, service_,    pool_,       large_bodies_,
                   metrics_,  operations_, extensions_, bodies_};
};

TEST_F(JsonBodyTest, TheIoThreadServesOthersWhileABodyIsRead) {
  for (const std::size_t size : {70'000U, 1'000'000U, 20'000'000U}) {
    const Outcome outcome = read(size);
    EXPECT_EQ(outcome.characters, size - 17) << size;
    EXPECT_NE(outcome.converter, io_thread_) << size;
    EXPECT_TRUE(outcome.io_thread_served) << size;
  }
}

TEST_F(JsonBodyTest, ASmallBodyChangesNoThread) { EXPECT_EQ(read(1000).converter, io_thread_); }

}  // namespace
}  // namespace daiv::api::test
