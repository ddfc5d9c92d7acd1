#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "images/digest.hpp"
#include "images/image_database.hpp"
#include "images/image_service.hpp"
#include "images/registry_client.hpp"
#include "images/single_flight.hpp"

namespace daiv::images {

// A layer that may have to be unpacked, and where its bytes come from.
struct WantedLayer {
  Digest diff_id;
  // Writes the layer's bytes, as they are stored, into the sink; called at most once, from another
  // thread. Throws what the sink throws.
  std::function<void(BlobSink&, const std::stop_token&)> stream;
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
  LayerRecord obtain(const WantedLayer& wanted, const std::stop_token& stop);

private:
  LayerRecord make(const WantedLayer& wanted, const std::stop_token& stop);
  LayerRecord unpack(const WantedLayer& wanted, const std::stop_token& stop);

  ImageDatabase& database_;
  LayerBackend& backend_;
  std::string lock_dir_;
  SingleFlight<LayerRecord> flights_;
};

}  // namespace daiv::images
