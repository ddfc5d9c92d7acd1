#include "images/unpack/pipe_source.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images::unpack {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{256} << 10U;
constexpr int pipe_bytes =
    1 << 20;  // the most that a process without capabilities may ask for by default (pipe(7))

}  // namespace

PipeSource::PipeSource(const os::UniqueFd& input)
    : input_(input),
      cancelled_(os::check(::eventfd(0, EFD_CLOEXEC), "eventfd", "cancel")),
      buffer_(buffer_bytes) {
  // A smaller pipe is slower, never wrong: a file or a refusal is no failure.
  static_cast<void>(::fcntl(input_.get(), F_SETPIPE_SZ, pipe_bytes));
}

void PipeSource::wait_readable() {
  std::array<pollfd, 2> fds{{{input_.get(), POLLIN, 0}, {cancelled_.get(), POLLIN, 0}}};
  os::check(os::retry_eintr([&] { return ::poll(fds.data(), fds.size(), -1); }), "poll", "input");
  if (fds[1].revents != 0) throw os::Error(ECANCELED, "read", "input");
}

bool PipeSource::read_more() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  wait_readable();
  const std::size_t count = os::read_some(input_, std::span(buffer_).subspan(end_));
  end_ += count;
  return count > 0;
}

std::span<const std::byte> PipeSource::peek(std::size_t count) {
  while (end_ - begin_ < count && read_more()) {
  }
  return buffered();
}

std::size_t PipeSource::read_into(std::span<std::byte> out) {
  if (const auto ready = buffered(); !ready.empty()) {
    const std::size_t count = std::min(ready.size(), out.size());
    std::memcpy(out.data(), ready.data(), count);
    consume(count);
    return count;
  }
  wait_readable();
  return os::read_some(input_, out);
}

void PipeSource::cancel() {
  constexpr std::uint64_t one = 1;
  os::write_full(cancelled_, std::string_view(reinterpret_cast<const char*>(&one), sizeof one));
}

}  // namespace daiv::images::unpack
