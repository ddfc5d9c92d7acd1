#include "agent/fs_walk.hpp"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_workers = 16;

// The directories still to be read. Ends when none is left and none is being read.
class Queue {
public:
  void put(std::unique_ptr<WalkedDirectory> directory) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    waiting_.push_back(std::move(directory));
    ++open_;
    if (idle_ > 0) changed_.notify_one();
  }

  // Waits for the next directory; nothing when all are done or one failed.
  std::unique_ptr<WalkedDirectory> take() {
    std::unique_lock lock(mutex_);
    ++idle_;
    changed_.wait(lock, [&] { return stopped_ || !waiting_.empty() || open_ == 0; });
    --idle_;
    if (waiting_.empty()) return nullptr;
    // The newest first: its parent is still warm, and the queue stays short.
    std::unique_ptr<WalkedDirectory> directory = std::move(waiting_.back());
    waiting_.pop_back();
    return directory;
  }

  void done(std::unique_ptr<WalkedDirectory> directory) {
    const std::lock_guard lock(mutex_);
    walked_.push_back(std::move(directory));
    if (--open_ == 0) changed_.notify_all();
  }

  // Lets all threads end: one failed.
  void stop() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    stopped_ = true;
    changed_.notify_all();
  }

  std::vector<std::unique_ptr<WalkedDirectory>> result() { return std::move(walked_); }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<WalkedDirectory>> waiting_;
  std::vector<std::unique_ptr<WalkedDirectory>> walked_;
  std::size_t open_ = 0;  // waiting or being read
  std::size_t idle_ = 0;
  bool stopped_ = false;
};

OrErrno<os::UniqueFd> open_below(const os::UniqueFd& base, const std::string& path) {
  try {
    // No link on the way, also not one that was a directory a moment ago.
    return os::open_beneath(base, path.empty() ? "." : path,
                            O_RDONLY | O_DIRECTORY | O_NOCTTY | O_NONBLOCK);
  } catch (const os::Error& error) {
    return std::unexpected(error.error_number());
  }
}

void read_directory(const os::UniqueFd& base, WalkedDirectory& directory, Queue& queue,
                    const Descend& descend) {
  const OrErrno<os::UniqueFd> fd = open_below(base, directory.path);
  directory.too_deep = !fd && fd.error() == ENAMETOOLONG;
  if (!fd) return;
  OrErrno<std::vector<DirectoryEntry>> entries = list_directory(*fd);
  if (!entries) return;
  directory.entries = std::move(*entries);
  for (const DirectoryEntry& entry : directory.entries) {
    if (entry.kind != EntryKind::directory) continue;
    std::vector<std::uint32_t> state;
    if (!descend(directory, entry, state)) continue;
    auto child = std::make_unique<WalkedDirectory>();
    child->path = directory.path + entry.name + '/';
    child->state = std::move(state);
    queue.put(std::move(child));
  }
}

}  // namespace

std::vector<std::unique_ptr<WalkedDirectory>> walk(const os::UniqueFd& base,
                                                   std::vector<std::uint32_t> state,
                                                   const Descend& descend) {
  Queue queue;
  auto top = std::make_unique<WalkedDirectory>();
  top->state = std::move(state);
  queue.put(std::move(top));
  run_on_threads(worker_count(), [&] {
    try {
      while (auto directory = queue.take()) {
        read_directory(base, *directory, queue, descend);
        queue.done(std::move(directory));
      }
    } catch (...) {
      queue.stop();
      throw;  // to run_on_threads, which hands it to the caller
    }
  });
  return queue.result();
}

void run_on_threads(std::size_t count, const std::function<void()>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(count);
    try {
      for (std::size_t i = 1; i < count; ++i) threads.emplace_back(guarded);
    } catch (const std::system_error&) {
      // No more threads for this user (pthread_create(3), EAGAIN): those that run are enough.
    }
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

std::size_t worker_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&set)), 1, max_workers);
}

std::vector<Wildcard> prune_patterns(const std::vector<std::string>& prune,
                                     const std::vector<std::string>& exclude) {
  std::vector<Wildcard> patterns;
  patterns.reserve(prune.size() + exclude.size());
  for (const std::string& pattern : prune) patterns.emplace_back(pattern, WildcardFlavour::shell);
  for (const std::string& pattern : exclude) patterns.emplace_back(pattern, WildcardFlavour::shell);
  return patterns;
}

}  // namespace daiv::agent
