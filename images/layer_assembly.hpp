#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "images/image_database.hpp"
#include "images/image_service.hpp"
#include "images/layer_pins.hpp"
#include "images/layer_store.hpp"

namespace daiv::images {

// A layer of an image that is wanted, and how it shows to whoever watches.
struct LayerTask {
  WantedLayer layer;
  std::string shown;  // digest of the blob
  std::uint64_t total_bytes = 0;
};

struct ImageTask {
  ImageRecord image;
  std::vector<ReferenceRecord> references;
  std::vector<LayerTask> layers;
};

// Gets all layers of an image onto this host. Thread-safe.
class LayerAssembly {
public:
  // Keeps references. `parallel`: layers in work at once.
  LayerAssembly(ImageDatabase& database, LayerStore& layers, LayerPins& pins, unsigned parallel)
      : database_(database), layers_(layers), pins_(pins), parallel_(parallel) {}

  // Pins on the layers, which keep them from being pruned until the image is recorded.
  using Pinned = std::vector<std::shared_ptr<const void>>;

  // Layers that stand alone are obtained in parallel, then those that depend on others from the
  // bottom up. Where a prune took one meanwhile, the image cannot be recorded: call it again.
  // Throws ImageError; the first failure stops the others.
  Pinned obtain(const ImageTask& task, const PullObserver& observer, const std::stop_token& stop);

private:
  class Work;

  ImageDatabase& database_;
  LayerStore& layers_;
  LayerPins& pins_;
  unsigned parallel_;
};

}  // namespace daiv::images
