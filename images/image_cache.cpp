#include "images/image_cache.hpp"

#include "images/manifest.hpp"

namespace daiv::images {

namespace {

constexpr std::chrono::minutes flush_interval{1};

}  // namespace

std::optional<Image> ImageCache::find(const std::string& reference) {
  const std::lock_guard lock(mutex_);
  if (const std::int64_t version = database_.version(); version != version_) {
    entries_.clear();
    version_ = version;
  }
  auto found = entries_.find(reference);
  if (found == entries_.end()) {
    const auto record = database_.find_reference(reference);
    if (!record) return std::nullopt;
    auto image = read(*record);
    if (!image) return std::nullopt;
    const auto written = image->last_used;
    found = entries_.emplace(reference, Entry{std::move(*image), written}).first;
  }
  Entry& entry = found->second;
  entry.image.last_used = std::chrono::system_clock::now();
  if (entry.image.last_used - entry.written > flush_interval) {
    database_.touch_image(entry.image.id, entry.image.last_used);
    entry.written = entry.image.last_used;
  }
  return entry.image;
}

std::optional<Image> ImageCache::read(const ReferenceRecord& reference) {
  const auto record = database_.find_image(reference.image_id);
  if (!record) return std::nullopt;
  auto config = parse_config(record->config);
  if (!config)
    return std::nullopt;  // written by another version, which took more than this one does
  Image image;
  image.id = record->id;
  image.reference = reference.reference;
  image.config = std::move(config->config);
  image.last_used = record->last_used;
  for (const auto& diff_id : record->diff_ids) {
    const auto layer = database_.find_layer(diff_id);
    if (!layer) return std::nullopt;
    image.unpacked_bytes += layer->bytes;
    // overlayfs ignores an opaque mark on a layer's root: what lies below is left out instead.
    if (layer->hides_below) image.layers.clear();
    if (!layer->name.empty()) image.layers.push_back(layer->name);
  }
  return image;
}

void ImageCache::clear() {
  flush();
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

void ImageCache::flush() {
  const std::lock_guard lock(mutex_);
  for (auto& [reference, entry] : entries_) {
    if (entry.image.last_used <= entry.written) continue;
    database_.touch_image(entry.image.id, entry.image.last_used);
    entry.written = entry.image.last_used;
  }
}

}  // namespace daiv::images
