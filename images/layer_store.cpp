#include "images/layer_store.hpp"

#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

#include "images/file_lock.hpp"
#include "images/layer_name.hpp"
#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr int pipe_bytes = 1 << 20;  // the default of /proc/sys/fs/pipe-max-size

// The unpacker has closed its end: why, it says itself.
struct UnpackerGone {};

class PipeSink final : public BlobSink {
public:
  explicit PipeSink(const os::UniqueFd& pipe) : pipe_(pipe) {}

  void write(std::span<const std::byte> bytes) override {
    try {
      os::write_full(pipe_,
                     std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    } catch (const os::Error& error) {
      if (error.error_number() == EPIPE) throw UnpackerGone{};
      throw;
    }
  }

private:
  const os::UniqueFd& pipe_;
};

// A write into a pipe without a reader is EPIPE for this thread, not the end of the process.
void block_sigpipe() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Feeds a pipe from a layer's source in a thread of its own, joined by the destructor.
class Feeder {
public:
  Feeder(const WantedLayer& wanted, os::UniqueFd pipe, const std::stop_token& stop)
      : forward_stop_(stop, [this] { stop_.request_stop(); }),
        thread_(
            [this, &wanted, end = std::move(pipe)]() mutable { feed(wanted, std::move(end)); }) {}

  // Whether the source has failed by itself: true before the pipe's other end can see the end.
  [[nodiscard]] bool has_failed() const noexcept { return failed_; }
  // Ends a source that still waits for the network.
  void cancel() { stop_.request_stop(); }
  // Waits for the end of the source; its failure, or null. One because the unpacker went away is
  // none.
  std::exception_ptr wait() {
    thread_.join();
    return failure_;
  }

private:
  void feed(const WantedLayer& wanted, os::UniqueFd pipe) noexcept {
    block_sigpipe();
    PipeSink sink(pipe);
    try {
      wanted.stream(sink, stop_.get_token());
    } catch (const UnpackerGone&) {
      return;
    } catch (...) {
      failure_ = std::current_exception();
      failed_ = true;
    }
  }

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> forward_stop_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
  std::jthread thread_;
};

}  // namespace

LayerStore::LayerStore(ImageDatabase& database, LayerBackend& backend, std::string lock_dir)
    : database_(database), backend_(backend), lock_dir_(std::move(lock_dir)) {}

std::optional<LayerRecord> LayerStore::obtain(const WantedLayer& wanted,
                                              const std::stop_token& stop) {
  return find_or_make({wanted.diff_id.string(), std::nullopt}, wanted, stop);
}

LayerRecord LayerStore::obtain_on(const LayerStack& stack, const WantedLayer& wanted,
                                  const std::stop_token& stop) {
  auto layer = find_or_make(stack, wanted, stop);
  if (!layer)
    throw ImageError(ImageFailure::invalid_image, "a hard link to a file that no layer has");
  return std::move(*layer);
}

// The key is the stack's chainID; of a layer that stands alone it is the diffID.
LayerStore::Found LayerStore::find_or_make(const LayerStack& stack, const WantedLayer& wanted,
                                           const std::stop_token& stop) {
  if (auto known = database_.find_layer(stack.chain_id)) return known;
  return flights_.run(stack.chain_id, stop, [&] { return make(stack, wanted, stop); });
}

LayerStore::Found LayerStore::make(const LayerStack& stack, const WantedLayer& wanted,
                                   const std::stop_token& stop) {
  const std::string hex = stack.chain_id.substr(stack.chain_id.find(':') + 1);
  auto lock = FileLock::wait_lock(lock_dir_ + "/" + hex + ".lock", LockKind::exclusive, stop);
  if (!lock) throw ImageError(ImageFailure::cancelled, "cancelled");
  if (auto known = database_.find_layer(stack.chain_id)) return known;
  Found layer = unpack(stack, wanted, stop);
  if (layer) {
    const std::string name = layer->name;
    try {
      // A layer without entries changes nothing: it needs no place among an overlay's lowers.
      if (layer->entries == 0) layer->name.clear();
      os::crash_point("front.pull.unpacked");
      database_.add_layer(*layer);
      os::crash_point("front.pull.layer_recorded");
      if (layer->name.empty()) backend_.remove({name});
    } catch (const std::exception&) {
      backend_.remove({name});
      throw;
    }
  }
  lock->remove_file();
  return layer;
}

LayerStore::Found LayerStore::unpack(const LayerStack& stack, const WantedLayer& wanted,
                                     const std::stop_token& stop) {
  const std::string name = make_layer_name();
  os::Pipe pipe = os::make_pipe();
  // A smaller pipe is slower, never wrong.
  static_cast<void>(::fcntl(pipe.write_end.get(), F_SETPIPE_SZ, pipe_bytes));
  Feeder feeder(wanted, std::move(pipe.write_end), stop);
  LayerBackend::Unpacked unpacked;
  std::exception_ptr failure;
  try {
    unpacked = backend_.unpack(name, wanted.diff_id.string(), pipe.read_end, stack.parents);
  } catch (...) {
    failure = std::current_exception();
  }
  pipe.read_end.reset();
  if (failure && !feeder.has_failed()) {
    // It failed by itself and needs no more bytes; what the cancelled source says then is not the
    // cause.
    feeder.cancel();
    feeder.wait();
    std::rethrow_exception(failure);
  }
  if (const auto source_failure = feeder.wait()) {
    // Bytes that turned out wrong at their end: what was made of them is not trusted.
    if (!failure) backend_.remove({name});
    std::rethrow_exception(source_failure);
  }
  if (unpacked.state == LayerBackend::Unpacked::State::needs_parents) return std::nullopt;
  return LayerRecord{stack.chain_id, name, unpacked.unpacked_bytes, unpacked.entries,
                     unpacked.hides_below};
}

}  // namespace daiv::images
