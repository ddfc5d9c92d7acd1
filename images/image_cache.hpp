#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "images/image_database.hpp"
#include "images/image_service.hpp"

namespace daiv::images {

// Images as callers get them, by reference, read from the database once: what asks for a present
// image costs some microseconds. Another process that writes makes it read anew. Thread-safe.
// Throws os::Error.
class ImageCache {
public:
  // Keeps a reference to `database`.
  explicit ImageCache(ImageDatabase& database) : database_(database) {}

  // The image of a reference in full form, now used; empty where it is not here.
  std::optional<Image> find(const std::string& reference);
  // The image of a record under a name, from the database.
  std::optional<Image> read(const ReferenceRecord& reference);

  // After a write of this process.
  void clear();
  // Writes down when images were last used: until then it is known to this process only.
  void flush();

private:
  struct Entry {
    Image image;
    std::chrono::system_clock::time_point written;  // the time of use that the database knows
  };

  ImageDatabase& database_;
  std::mutex mutex_;
  std::int64_t version_ = -1;
  std::map<std::string, Entry> entries_;
};

}  // namespace daiv::images
