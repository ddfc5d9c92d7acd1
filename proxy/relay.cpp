#include "proxy/relay.hpp"

#include <algorithm>

#include "proxy/side_by_side.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

// Where one side has ended, the other seldom has much to say.
constexpr milliseconds half_closed_idle{600'000};

// A direction that has moved so much is a large body: from here on a pipe pays for itself.
constexpr std::uint64_t splice_after = 1U << 20;

}  // namespace

void Relay::cut() noexcept {
  client_.cut();
  upstream_.cut();
}

asio::awaitable<void> Relay::up(std::string first) {
  return pump(client_, upstream_, std::move(first), traffic_.up);
}

asio::awaitable<void> Relay::down(std::string first) {
  return pump(upstream_, client_, std::move(first), traffic_.down);
}

asio::awaitable<void> Relay::run(std::string first_up, std::string first_down) {
  auto upwards = up(std::move(first_up));
  auto downwards = down(std::move(first_down));
  co_await side_by_side(std::move(upwards), std::move(downwards));
}

asio::awaitable<bool> Relay::wait(Channel& from, Channel::Direction direction) {
  for (;;) {
    const auto quiet = std::chrono::duration_cast<milliseconds>(steady_clock::now() - last_);
    if (quiet >= idle_) co_return false;
    const Wake wake = co_await from.wait(direction, idle_ - quiet);
    if (wake == Wake::ready) co_return true;
    // The other direction may have moved meanwhile.
    if (wake != Wake::timeout) co_return false;
  }
}

// Sends the scratch buffer's first `size` bytes; what the peer does not take at once is copied,
// since the buffer is everybody's.
asio::awaitable<bool> Relay::pass(Channel& to, std::size_t size) {
  const std::string_view data(to.set().scratch().data(), size);
  std::size_t done = 0;
  while (done < size) {
    const Transfer sent = to.try_write(data.substr(done));
    if (sent.kind != Transfer::Kind::bytes) break;
    done += sent.bytes;
  }
  last_ = steady_clock::now();
  if (done == size) co_return true;
  const std::string rest(data.substr(done));
  const bool written = co_await to.write(rest, idle_);
  last_ = steady_clock::now();
  co_return written;
}

asio::awaitable<bool> Relay::drain(SplicePipe& pipe, Channel& to) {
  while (!pipe.empty()) {
    const Transfer sent = pipe.drain(to);
    last_ = steady_clock::now();
    if (sent.kind == Transfer::Kind::bytes) continue;
    if (sent.kind != Transfer::Kind::needs_write) co_return false;
    const Wake wake = co_await to.wait(Channel::Direction::write, idle_);
    if (wake != Wake::ready) co_return false;
  }
  co_return true;
}

asio::awaitable<void> Relay::pump(Channel& from, Channel& to, std::string first,
                                  std::uint64_t& count) {
  count += first.size();
  bool going = co_await to.write(first, idle_);
  first = std::string();
  const bool plain = !from.is_tls() && !to.is_tls();
  std::optional<SplicePipe> pipe;
  while (going) {
    if (plain && !pipe && count >= splice_after) pipe = SplicePipe::make(from.set());
    std::vector<char>& scratch = from.set().scratch();
    const Transfer got = pipe ? pipe->fill(from) : from.try_read(scratch.data(), scratch.size());
    switch (got.kind) {
      case Transfer::Kind::bytes:
        count += got.bytes;
        if (pipe)
          going = co_await drain(*pipe, to);
        else
          going = co_await pass(to, got.bytes);
        if (going) co_await from.give_way();
        break;
      case Transfer::Kind::needs_read:
        going = co_await wait(from, Channel::Direction::read);
        break;
      case Transfer::Kind::needs_write:
        going = co_await wait(from, Channel::Direction::write);
        break;
      case Transfer::Kind::end:
        to.finish_sending();
        idle_ = std::min(idle_, half_closed_idle);
        co_return;
      case Transfer::Kind::truncated:
      case Transfer::Kind::failed:
        going = false;
        break;
    }
  }
  cut();
}

}  // namespace daiv::proxy
