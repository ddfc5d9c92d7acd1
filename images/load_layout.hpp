#pragma once

#include <string>
#include <vector>

#include "images/load_archive.hpp"
#include "images/manifest.hpp"

namespace daiv::images {

// An image that an archive holds, with its parts checked as far as it goes before unpacking.
struct ArchivedImage {
  std::vector<std::string> references;  // in full form; the image's id where it has no name
  std::string id;
  std::string config_bytes;
  ConfigFile config;
  std::vector<const LoadArchive::Member*>
      layers;  // bottom first, as many as the configuration's diffIDs
};

// Reads what is in an archive: `docker save` in all its forms (manifest.json), or an OCI image
// layout (index.json, indexes in indexes, the entry of `wanted` of an index). Blobs that are called
// by their digest must have it. Throws ImageError{invalid_image | wrong_platform}; the image
// archive keeps the members that the result points to.
std::vector<ArchivedImage> read_layout(const LoadArchive& archive, const Platform& wanted);

}  // namespace daiv::images
