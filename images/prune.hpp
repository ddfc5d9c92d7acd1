#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "images/image_database.hpp"
#include "images/image_service.hpp"

namespace daiv::images {

// What is in the store when pruning begins.
struct PruneInput {
  ImageService::PruneScope scope = ImageService::PruneScope::unreferenced_layers;
  std::vector<ImageRecord> images;  // least recently used first
  std::vector<ReferenceRecord> references;
  std::vector<LayerRecord> layers;
  std::set<std::string> used_names;        // layer directories of existing sessions
  std::uint64_t bytes_over_watermark = 0;  // for `above_watermark`: how much has to go
};

struct PrunePlan {
  std::vector<std::string> images;      // ids
  std::vector<std::string> references;  // of these images
  std::vector<std::string> diff_ids;    // layers that no image needs then
};

// Decides what goes. Images without a reference always go, unless a session uses them. An image
// counts as used where all its layers are in use: it may be more than a session's own image, never
// less. Layers in use stay, whatever image they were of. Pure.
PrunePlan plan_prune(const PruneInput& input);

}  // namespace daiv::images
