#include "images/layer_pins.hpp"

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

// A name is six of [a-z0-9]: a number in base 36, so each has a byte of its own.
off_t offset_of(const std::string& name) {
  off_t offset = 0;
  for (const char letter : name) {
    const int digit = letter >= 'a' ? letter - 'a' + 10 : letter - '0';
    offset = offset * 36 + digit;
  }
  return offset;
}

int lock(const os::UniqueFd& file, const std::string& name, short type, int command) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset_of(name);
  range.l_len = 1;
  return os::retry_eintr([&] { return ::fcntl(file.get(), command, &range); });
}

}  // namespace

// The pins of this process: the kernel keeps one lock for all that are on one byte.
struct LayerPins::Held {
  os::UniqueFd file;
  std::mutex mutex;
  std::map<std::string, unsigned> counts;

  // A claim is held for some database writes, so waiting with the mutex costs little.
  void take(const std::string& name) {
    const std::lock_guard guard(mutex);
    if (!counts.contains(name))
      os::check(lock(file, name, F_RDLCK, F_OFD_SETLKW), "fcntl F_OFD_SETLKW", name);
    ++counts[name];
  }

  void let_go(const std::string& name) noexcept {
    const std::lock_guard guard(mutex);
    const auto found = counts.find(name);
    if (--found->second > 0) return;
    counts.erase(found);
    static_cast<void>(lock(file, name, F_UNLCK, F_OFD_SETLK));
  }
};

LayerPins::LayerPins(std::string path) : path_(std::move(path)), held_(std::make_shared<Held>()) {
  held_->file = os::open_file(path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
}

std::shared_ptr<const void> LayerPins::hold(const std::vector<std::string>& names) {
  struct Pin {
    explicit Pin(std::shared_ptr<Held> all) : held(std::move(all)) {}
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() {
      for (const std::string& name : names) held->let_go(name);
    }
    std::shared_ptr<Held> held;
    std::vector<std::string> names;
  };
  auto pin = std::make_shared<Pin>(held_);
  pin->names.reserve(names.size());
  for (const std::string& name : names) {
    held_->take(name);
    pin->names.push_back(name);
  }
  return pin;
}

LayerPins::Claim LayerPins::claim(const std::vector<std::string>& names) {
  Claim claim;
  claim.file_ = os::open_file(path_, O_RDWR | O_NOFOLLOW);
  for (const std::string& name : names) {
    if (lock(claim.file_, name, F_WRLCK, F_OFD_SETLK) == 0) continue;
    if (errno != EAGAIN && errno != EACCES) os::throw_errno("fcntl F_OFD_SETLK", name);
    claim.pinned_.push_back(name);
  }
  return claim;
}

}  // namespace daiv::images
