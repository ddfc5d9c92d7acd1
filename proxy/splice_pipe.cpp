#include "proxy/splice_pipe.hpp"

#include <fcntl.h>

#include <cerrno>

#include "os/error.hpp"

namespace daiv::proxy {
namespace {

constexpr std::size_t max_pipes = 4;  // of a session
// The largest that fs.pipe-max-size lets anybody have. A pipe of the usual 64 KiB saves nothing
// over a copy: the cost is in the calls and wake-ups.
constexpr std::size_t pipe_bytes = 1U << 20;

Transfer outcome(ssize_t count, Transfer::Kind blocked) {
  if (count > 0) return {Transfer::Kind::bytes, static_cast<std::size_t>(count)};
  if (count == 0) return {Transfer::Kind::end, 0};
  return {errno == EAGAIN ? blocked : Transfer::Kind::failed, 0};
}

}  // namespace

std::optional<SplicePipe> SplicePipe::make(ChannelSet& set) {
  if (set.splices() >= max_pipes) return std::nullopt;
  Share share(&++set.splices());
  try {
    auto pipe = os::make_pipe(O_NONBLOCK);
    // Refused above fs.pipe-user-pages-soft (pipe(7)).
    if (::fcntl(pipe.read_end.get(), F_SETPIPE_SZ, pipe_bytes) < 0) return std::nullopt;
    return SplicePipe(std::move(pipe), std::move(share));
  } catch (const os::Error&) {
    return std::nullopt;
  }
}

// A socket that was shut down or reset says so itself: what cut() did is seen in both.
Transfer SplicePipe::fill(Channel& from) {
  if (from.is_cut()) return {Transfer::Kind::failed, 0};
  const auto got =
      outcome(os::retry_eintr([&] {
                return ::splice(from.socket().native_handle(), nullptr, pipe_.write_end.get(),
                                nullptr, pipe_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
              }),
              Transfer::Kind::needs_read);
  held_ += got.bytes;
  return got;
}

Transfer SplicePipe::drain(Channel& to) {
  if (to.is_cut()) return {Transfer::Kind::failed, 0};
  const auto sent =
      outcome(os::retry_eintr([&] {
                return ::splice(pipe_.read_end.get(), nullptr, to.socket().native_handle(), nullptr,
                                held_, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
              }),
              Transfer::Kind::needs_write);
  held_ -= sent.bytes;
  return sent;
}

}  // namespace daiv::proxy
