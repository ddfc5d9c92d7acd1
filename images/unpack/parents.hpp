#pragma once

#include <cstdint>

#include "images/unpack/entry_policy.hpp"
#include "images/unpack/layer_tree.hpp"
#include "os/unique_fd.hpp"

// What a layer takes from the layers below it, which are one read-only tree made of images: its
// symlinks are followed within it alone, by walking them here. Everything throws os::Error,
// or UnpackError{corrupt} where the tree does not have what the layer says.
namespace daiv::images::unpack {

// A regular file, open for reading, and its place without symlinks.
struct ParentsFile {
  EntryPath path;
  os::UniqueFd file;
};
// That of `path`. Anything else of that name is refused unopened.
ParentsFile open_parents_file(const os::UniqueFd& parents, const EntryPath& path);

// Copies data, owner, mode, attributes and time into a new file of the layer; returns its size.
std::uint64_t copy_file(const os::UniqueFd& source, const os::UniqueFd& target);

// Gives directories that the layer has no entry for what they have in the layers below: in an
// overlay it is the upper one that shows.
void describe_by_parents(const os::UniqueFd& parents, LayerTree& tree);

}  // namespace daiv::images::unpack
