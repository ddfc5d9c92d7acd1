#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "images/image_service.hpp"

namespace daiv::images {

// A layer as stored: once for its content, whatever lies below it in an image, but for one that
// links to files of the layers below or takes the state of directories from them: that is stored
// once for each stack.
struct LayerRecord {
  std::string diff_id;  // its key: the diffID, or the chainID where it depends on what lies below
  std::string name;     // of its directory; empty for a layer without entries, which has none
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  bool hides_below = false;  // an opaque whiteout at its root
};

struct ImageRecord {
  std::string id;      // digest of the configuration
  std::string config;  // its bytes
  // Bottom first: diffIDs where an image is added, the keys of its layers where it is found.
  std::vector<std::string> diff_ids;
  std::vector<std::string> chain_ids;  // as many
  std::chrono::system_clock::time_point last_used;
};

struct ReferenceRecord {
  std::string reference;  // full form, or the id of an image that has no name
  std::string image_id;
  std::string digest;  // of what the registry named; empty after a load
};

// The records of images and layers in <state>/images.db (SQLite, WAL). What is in it is whole: rows
// are written when all that they speak of is there. Thread-safe; each call is one transaction.
// Throws os::Error.
class ImageDatabase {
public:
  explicit ImageDatabase(const std::string& path);
  ~ImageDatabase();
  ImageDatabase(const ImageDatabase&) = delete;
  ImageDatabase& operator=(const ImageDatabase&) = delete;

  // A number that changes when another connection has written (PRAGMA data_version); some
  // microseconds.
  std::int64_t version();

  std::optional<LayerRecord> find_layer(const std::string& key);
  // The layer of a place in an image: independent of it, or made for this stack.
  std::optional<LayerRecord> find_layer(const std::string& diff_id, const std::string& chain_id);
  std::vector<LayerRecord> layers();
  // Records a layer whose directory is complete. It is trusted after a power cut only once it is
  // marked durable: until then its files may be in memory alone. Of two processes that record one
  // diffID the second is ignored: false.
  bool add_layer(const LayerRecord& layer);
  // diffIDs of layers of this boot that are not marked yet.
  std::vector<std::string> volatile_layers();
  void mark_durable(const std::vector<std::string>& diff_ids);
  // Layers of an earlier boot that were never marked durable.
  std::vector<LayerRecord> doubtful_layers();
  // Takes layers away with the images that need them.
  void forget_layers(const std::vector<std::string>& diff_ids);

  // Records the image under `reference`, which may have meant another before. False, and nothing is
  // written, where one of its layers is not there (any more).
  bool add_image(const ImageRecord& image, const ReferenceRecord& reference);
  std::optional<ImageRecord> find_image(const std::string& id);
  std::optional<ReferenceRecord> find_reference(const std::string& reference);
  std::vector<ReferenceRecord> references();
  std::vector<ImageRecord> images();
  bool remove_reference(const std::string& reference);
  void touch_image(const std::string& id, std::chrono::system_clock::time_point used);

  // Removes images and layers in one transaction; of `diff_ids` only those that no image needs now.
  // Returns what went.
  std::vector<LayerRecord> remove(const std::vector<std::string>& image_ids,
                                  const std::vector<std::string>& diff_ids);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::images
