#include "images/prune.hpp"

#include <algorithm>
#include <map>

namespace daiv::images {

namespace {

class Planner {
public:
  explicit Planner(const PruneInput& input) : input_(input) {
    for (const auto& layer : input.layers) layers_[layer.diff_id] = &layer;
    for (const auto& image : input.images) {
      for (const auto& diff_id : image.diff_ids) ++needed_[diff_id];
    }
    for (const auto& reference : input.references) referenced_.insert(reference.image_id);
  }

  PrunePlan plan() {
    for (const auto& image : input_.images) {
      if (!referenced_.contains(image.id) && !is_used(image)) drop(image);
    }
    for (const auto& image : input_.images) {
      if (wants_more() && referenced_.contains(image.id) && !is_used(image)) drop(image);
    }
    for (const auto& [diff_id, layer] : layers_) {
      if (needed_[diff_id] == 0 && !input_.used_names.contains(layer->name))
        plan_.diff_ids.push_back(diff_id);
    }
    return std::move(plan_);
  }

private:
  [[nodiscard]] bool wants_more() const {
    switch (input_.scope) {
      case ImageService::PruneScope::unreferenced_layers:
        return false;
      case ImageService::PruneScope::unused_images:
        return true;
      case ImageService::PruneScope::above_watermark:
        return freed_ < input_.bytes_over_watermark;
    }
    return false;
  }

  [[nodiscard]] bool is_used(const ImageRecord& image) const {
    bool has_directory = false;
    for (const auto& diff_id : image.diff_ids) {
      const auto layer = layers_.find(diff_id);
      if (layer == layers_.end() || layer->second->name.empty()) continue;
      if (!input_.used_names.contains(layer->second->name)) return false;
      has_directory = true;
    }
    return has_directory;
  }

  void drop(const ImageRecord& image) {
    plan_.images.push_back(image.id);
    for (const auto& reference : input_.references) {
      if (reference.image_id == image.id) plan_.references.push_back(reference.reference);
    }
    for (const auto& diff_id : image.diff_ids) {
      const auto layer = layers_.find(diff_id);
      if (--needed_[diff_id] == 0 && layer != layers_.end() &&
          !input_.used_names.contains(layer->second->name)) {
        freed_ += layer->second->bytes;
      }
    }
  }

  const PruneInput& input_;
  std::map<std::string, const LayerRecord*> layers_;
  std::map<std::string, std::size_t> needed_;
  std::set<std::string> referenced_;
  std::uint64_t freed_ = 0;
  PrunePlan plan_;
};

}  // namespace

PrunePlan plan_prune(const PruneInput& input) { return Planner(input).plan(); }

}  // namespace daiv::images
