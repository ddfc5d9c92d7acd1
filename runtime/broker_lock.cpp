#include "runtime/broker_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/trash.hpp"

namespace daiv::runtime {
namespace {

constexpr std::chrono::milliseconds ask_again{5};

}  // namespace

os::UniqueFd lock_out_earlier_brokers(const std::string& directory,
                                      std::chrono::milliseconds limit) {
  const std::string path = directory + "/broker.lock";
  open_or_make(directory, 0711);
  os::UniqueFd lock = os::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  const auto end = std::chrono::steady_clock::now() + limit;
  // Nothing but a blocked flock(2) tells that it is free, and that has no limit.
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) os::throw_errno("flock", path);
    if (std::chrono::steady_clock::now() > end)
      throw os::Error(ETIMEDOUT, "flock", path + ", held by operations of an earlier broker");
    std::this_thread::sleep_for(ask_again);
  }
  return lock;
}

}  // namespace daiv::runtime
