#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "images/digest.hpp"
#include "images/image_database.hpp"
#include "images/image_service.hpp"
#include "images/registry_client.hpp"
#include "images/single_flight.hpp"

namespace daiv::images {

// A layer that may have to be unpacked, and where its bytes come from.
struct WantedLayer {
  Digest diff_id;
  // Writes the layer's bytes, as they are stored, into the sink; called from another thread, twice
  // for a layer that turns out to depend on what lies below. Throws what the sink throws.
  std::function<void(BlobSink&, const std::stop_token&)> stream;
};

// Where a layer that depends on those below it lies in an image.
struct LayerStack {
  std::string chain_id;           // of the layer with all below it
  LayerBackend::Parents parents;  // names of the directories below
};

// Gets layers unpacked, each once: for all threads of this process and all processes on the state
// directory.
class LayerStore {
public:
  // Keeps references. `lock_dir`: where the lock files of layers in work lie.
  LayerStore(ImageDatabase& database, LayerBackend& backend, std::string lock_dir);

  // The record of the layer, which is unpacked first where it is missing: bytes flow from the
  // source through a pipe into the unpacker. Throws ImageError, with the source's failure before
  // what the unpacker made of it; then nothing of the layer is left.
  // Empty where what lies below it matters: it links to files of those layers, or has directories
  // without an entry of their own.
  std::optional<LayerRecord> obtain(const WantedLayer& wanted, const std::stop_token& stop);
  // The same for such a layer; its record is kept under the chainID.
  LayerRecord obtain_on(const LayerStack& stack, const WantedLayer& wanted,
                        const std::stop_token& stop);

private:
  using Found = std::optional<LayerRecord>;
  Found find_or_make(const LayerStack& stack, const WantedLayer& wanted,
                     const std::stop_token& stop);
  Found make(const LayerStack& stack, const WantedLayer& wanted, const std::stop_token& stop);
  Found unpack(const LayerStack& stack, const WantedLayer& wanted, const std::stop_token& stop);

  ImageDatabase& database_;
  LayerBackend& backend_;
  std::string lock_dir_;
  SingleFlight<Found> flights_;
};

}  // namespace daiv::images
