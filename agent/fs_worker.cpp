#include "agent/fs_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/fs_handler.hpp"
#include "os/allocator.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::agent {
namespace {

// A unix socket's buffer takes this at once, however slow its reader (unix(7), SO_SNDBUF).
constexpr std::size_t max_unblocking_bytes = 64U << 10;
constexpr timeval max_stall{30, 0};  // a front that neither sends nor reads does not keep a worker

std::string read_payload(const os::UniqueFd& connection, std::uint32_t length) {
  std::string payload;
  while (payload.size() < length) {  // grows with what arrives, not with what is announced
    const std::size_t have = payload.size();
    payload.resize(std::min<std::size_t>(length, have + chunk_bytes));
    const std::size_t count =
        os::read_full(connection, std::as_writable_bytes(std::span(payload).subspan(have)));
    if (count < payload.size() - have) throw wire::DecodeError("request ends too early");
  }
  return payload;
}

std::string answer_frame(const Context& context, const os::UniqueFd& connection,
                         const FsAssignment& assignment) {
  std::string message;
  try {
    const std::string answer =
        handle_fs(read_payload(connection, assignment.length), context.config);
    if (answer.size() <= max_fs_answer_bytes)
      return make_frame(static_cast<std::uint8_t>(AnswerType::fs), answer);
    message = "the answer is too long";
  } catch (const std::exception& error) {
    message = error.what();
  }
  return make_frame(static_cast<std::uint8_t>(AnswerType::failed), Failed{message}.encode());
}

void send_all(const os::UniqueFd& connection, std::string_view data) {
  while (!data.empty()) {
    const auto count = os::retry_eintr(
        [&] { return ::send(connection.get(), data.data(), data.size(), MSG_NOSIGNAL); });
    if (count < 0) return;  // the front is gone or stalls
    data.remove_prefix(static_cast<std::size_t>(count));
  }
}

void serve_one(const Context& context, const os::UniqueFd& control, os::Message message) {
  if (message.fds.size() != 1) throw wire::DecodeError("no connection");
  const os::UniqueFd connection = std::move(message.fds.front());
  os::check(::fcntl(connection.get(), F_SETFL, O_RDWR), "fcntl F_SETFL", "connection");
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &max_stall, sizeof max_stall);
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &max_stall, sizeof max_stall);
  const std::string frame = answer_frame(context, connection, FsAssignment::parse(message.data));
  // Idle before the front has its answer, where sending can't block: the next request comes at
  // once, and would start another worker.
  const bool can_block = frame.size() > max_unblocking_bytes;
  os::send_message(control, {can_block ? &fs_answering : &fs_idle, 1});
  send_all(connection, frame);
  if (can_block) os::send_message(control, {&fs_idle, 1});
}

}  // namespace

StepError become_worker(const Context& context, std::initializer_list<int> kept) noexcept {
  try {
    if (const Leaf* leaf = context.cgroups.workers()) Cgroups::join(*leaf);
  } catch (const os::Error& error) {
    return {"join cgroup", error.error_number()};
  }
  std::array<int, 8> sorted{};
  const std::size_t count = std::min(kept.size(), sorted.size());
  std::copy_n(kept.begin(), count, sorted.begin());
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  unsigned next = STDERR_FILENO + 1;
  for (std::size_t index = 0; index < count; ++index) {
    const auto fd = static_cast<unsigned>(sorted[index]);
    if (fd > next && ::syscall(SYS_close_range, next, fd - 1, 0) != 0)
      return {"close_range", errno};
    next = fd + 1;
  }
  if (::syscall(SYS_close_range, next, ~0U, 0) != 0) return {"close_range", errno};
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const auto error = confine(context.confinement); error.step) return error;
  // setresuid(2) leaves it as fs.suid_dumpable says where the ids do not change.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return {"PR_SET_DUMPABLE", errno};
  return {};
}

void run_fs_worker(const Context& context, os::UniqueFd control) noexcept {
  try {
    if (become_worker(context, {control.get()}).step != nullptr) ::_exit(1);
    ::prctl(PR_SET_NAME, "daiv-files");
    os::keep_freed_memory();
    ::umask(022);
    if (::chdir("/workspace") != 0) ::_exit(1);
    while (auto message = os::receive_message(control, sizeof(std::uint32_t)))
      serve_one(context, control, std::move(*message));
    ::_exit(0);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

}  // namespace daiv::agent
