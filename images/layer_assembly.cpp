#include "images/layer_assembly.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace daiv::images {

namespace {

using Stage = PullEvent::Stage;

}  // namespace

// One image's layers on their way.
class LayerAssembly::Work {
public:
  Work(LayerAssembly& all, const ImageTask& task, const PullObserver& observer)
      : all_(all), task_(task), observer_(observer) {}

  void obtain_independent(const std::stop_token& stop);
  void obtain_dependent(const std::stop_token& stop);
  Pinned take_pins() { return std::move(pins_); }

private:
  bool obtain(std::size_t index, const LayerStack* stack, const std::stop_token& stop);
  [[nodiscard]] std::optional<LayerStack> stack_below(std::size_t index) const;
  void pin(const LayerRecord& layer);
  void notify(const LayerTask& layer, Stage stage, std::uint64_t bytes) const;
  [[nodiscard]] std::optional<LayerRecord> find(std::size_t index) const {
    return all_.database_.find_layer(task_.image.diff_ids[index], task_.image.chain_ids[index]);
  }

  LayerAssembly& all_;
  const ImageTask& task_;
  const PullObserver& observer_;
  std::mutex mutex_;
  Pinned pins_;
  std::set<std::size_t> dependent_;
  std::exception_ptr failure_;
};

void LayerAssembly::Work::notify(const LayerTask& layer, Stage stage, std::uint64_t bytes) const {
  if (observer_) observer_({layer.shown, stage, bytes, layer.total_bytes});
}

void LayerAssembly::Work::pin(const LayerRecord& layer) {
  if (layer.name.empty()) return;
  auto held = all_.pins_.hold({layer.name});
  const std::lock_guard lock(mutex_);
  pins_.push_back(std::move(held));
}

// False where the layer depends on those below it, and no stack was given.
bool LayerAssembly::Work::obtain(std::size_t index, const LayerStack* stack,
                                 const std::stop_token& stop) {
  const LayerTask& layer = task_.layers[index];
  if (const auto known = find(index)) {
    pin(*known);
    if (find(index)) {  // no prune was faster than the pin
      notify(layer, Stage::exists, layer.total_bytes);
      return true;
    }
  }
  notify(layer, Stage::downloading, 0);
  const auto stream = [&](BlobSink& sink, const std::stop_token& inner_stop) {
    layer.layer.stream(sink, inner_stop);
    notify(layer, Stage::unpacking, layer.total_bytes);
  };
  const WantedLayer reported{layer.layer.diff_id, stream};
  const auto got = stack == nullptr ? all_.layers_.obtain(reported, stop)
                                    : all_.layers_.obtain_on(*stack, reported, stop);
  if (!got) return false;
  pin(*got);
  notify(layer, Stage::done, layer.total_bytes);
  return true;
}

void LayerAssembly::Work::obtain_independent(const std::stop_token& stop) {
  std::stop_source all;
  const std::stop_callback forward(stop, [&] { all.request_stop(); });
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < task_.layers.size() && !all.stop_requested(); i = next++) {
      try {
        // Below the first one there is nothing to wait for.
        const auto stack = i == 0 ? stack_below(0) : std::nullopt;
        if (obtain(i, stack ? &*stack : nullptr, all.get_token())) continue;
        const std::lock_guard lock(mutex_);
        dependent_.insert(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!all.stop_requested() || !failure_) failure_ = std::current_exception();
        all.request_stop();
      }
    }
  };
  for (const LayerTask& layer : task_.layers) notify(layer, Stage::waiting, 0);
  {
    std::vector<std::jthread> workers;
    const std::size_t parallel = std::min<std::size_t>(all_.parallel_, task_.layers.size());
    for (std::size_t i = 1; i < parallel; ++i) workers.emplace_back(work);
    work();
  }
  if (failure_) std::rethrow_exception(failure_);
  if (stop.stop_requested()) throw ImageError(ImageFailure::cancelled, "cancelled");
}

// What lies below a layer of the image, all of it obtained. Empty where a prune took some.
std::optional<LayerStack> LayerAssembly::Work::stack_below(std::size_t index) const {
  LayerStack stack{task_.image.chain_ids[index], std::vector<std::string>{}};
  for (std::size_t i = 0; i < index; ++i) {
    const auto below = find(i);
    if (!below) return std::nullopt;
    if (below->hides_below) stack.parents->clear();
    if (!below->name.empty()) stack.parents->push_back(below->name);
  }
  return stack;
}

void LayerAssembly::Work::obtain_dependent(const std::stop_token& stop) {
  for (const std::size_t index : dependent_) {
    const auto stack = stack_below(index);
    if (!stack) return;
    obtain(index, &*stack, stop);
  }
}

LayerAssembly::Pinned LayerAssembly::obtain(const ImageTask& task, const PullObserver& observer,
                                            const std::stop_token& stop) {
  Work work(*this, task, observer);
  work.obtain_independent(stop);
  work.obtain_dependent(stop);
  return work.take_pins();
}

}  // namespace daiv::images
