#include "runtime/broker_client.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "os/error.hpp"
#include "os/socket.hpp"

namespace daiv::runtime {
namespace {

// What sending to a peer that has closed its end comes to (send(2); unix(7)).
bool means_gone(const os::Error& error) {
  const int number = error.error_number();
  return number == EPIPE || number == ECONNRESET || number == ENOTCONN;
}

}  // namespace

BrokerGone::BrokerGone() : os::Error(EPIPE, "broker", "connection closed") {}

struct BrokerClient::Impl {
  Impl(os::UniqueFd connected, std::function<void()> gone_hook)
      : socket(std::move(connected)), on_gone(std::move(gone_hook)) {
    reader = std::thread([this] { read_answers(); });
  }

  ~Impl() {
    ::shutdown(socket.get(), SHUT_RDWR);  // wakes the reader
    reader.join();
  }

  // Numbers and places an answer is expected at; throws where the broker is gone.
  std::uint32_t expect() {
    const std::lock_guard lock(mutex);
    if (gone) throw BrokerGone();
    const std::uint32_t number = next_number++;
    waiting.emplace(number, std::nullopt);
    return number;
  }

  void forget(std::uint32_t number) {
    const std::lock_guard lock(mutex);
    waiting.erase(number);
  }

  Reply wait(std::uint32_t number) {
    std::unique_lock lock(mutex);
    const auto place = waiting.find(number);
    arrived.wait(lock, [&] { return place->second.has_value() || gone; });
    std::optional<Reply> reply = std::move(waiting.extract(place).mapped());
    if (!reply) throw BrokerGone();
    return std::move(*reply);
  }

  void read_answers() {
    try {
      while (auto message = os::receive_message(socket, max_broker_message_bytes)) {
        AnswerMessage answer = decode_answer(message->data);
        deliver(answer.number, {std::move(answer.body), std::move(message->fds)});
      }
    } catch (const std::exception&) {
      // A broker that breaks the protocol is a broker that is gone: callers learn it below.
      ::shutdown(socket.get(), SHUT_RDWR);
    }
    {
      const std::lock_guard lock(mutex);
      gone = true;
      arrived.notify_all();
    }
    if (on_gone) on_gone();
  }

  void deliver(std::uint32_t number, Reply reply) {
    const std::lock_guard lock(mutex);
    const auto place = waiting.find(number);
    if (place == waiting.end()) return;
    place->second = std::move(reply);
    arrived.notify_all();
  }

  os::UniqueFd socket;
  std::function<void()> on_gone;
  std::mutex mutex;  // guards all below but the thread
  std::condition_variable arrived;
  std::map<std::uint32_t, std::optional<Reply>> waiting;
  std::uint32_t next_number = 1;
  bool gone = false;
  std::thread reader;
};

BrokerClient::BrokerClient(os::UniqueFd socket, std::function<void()> on_gone)
    : impl_(std::make_unique<Impl>(std::move(socket), std::move(on_gone))) {}
BrokerClient::~BrokerClient() = default;

Reply BrokerClient::call(const Request& request, const std::vector<int>& fds) {
  const std::uint32_t number = impl_->expect();
  try {
    // One message of a SEQPACKET socket is atomic: callers need no lock between them.
    os::send_message(impl_->socket, encode(RequestMessage{number, request}), fds);
  } catch (const os::Error& error) {
    impl_->forget(number);
    if (means_gone(error)) throw BrokerGone();
    throw;
  } catch (...) {
    impl_->forget(number);
    throw;
  }
  return impl_->wait(number);
}

}  // namespace daiv::runtime
