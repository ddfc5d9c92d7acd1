#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "images/unpack/entry_policy.hpp"
#include "images/unpack/layer_tree.hpp"
#include "images/unpack/tar_entry.hpp"
#include "os/unique_fd.hpp"

namespace daiv::images::unpack {

// Where a layer is written, and what lies below it.
struct Place {
  const os::UniqueFd& root;     // an empty directory
  const os::UniqueFd& parents;  // the layers below as one tree, read only; empty: not given
  bool above_others = false;    // there are layers below; that matters where they are not given
};

// Writes the entries of one layer below its directory, as overlayfs wants a lower layer (OCI image
// spec, layer.md):
// - of several entries with one name the last one counts; a whiteout never takes away what its own
// layer brings;
// - a directory that only its contents imply is what it is in the layers below, as an overlay shows
// the upper one of two; where they have none, root's, 0755; directories get their times last;
// - a hard link may come before its target; where no entry is its target, the file is copied from
// the layers below, since in an overlay files of two layers cannot be one inode;
// - what needs the layers below where they are not given makes the layer Status::needs_parents;
// - devices and sockets are passed over.
// One thread. Everything throws UnpackError with the entry's name in its text.
class LayerWriter {
public:
  // Keeps references to what is in `place`. Needs umask 0.
  explicit LayerWriter(const Place& place);

  void add(const TarEntry& entry, EntryData& data);
  // Makes what had to wait for the end of the tar.
  void finish();

  // Whether the layer's root has an opaque whiteout.
  [[nodiscard]] bool hides_below() { return tree_.find("")->opaque; }
  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }  // of files' data

private:
  struct WaitingLink {
    EntryPath path;
    EntryPath target;
  };

  void add_checked(const TarEntry& entry, EntryData& data);
  void add_root(const TarEntry& entry);
  void add_whiteout(const EntryPath& path, const std::string& target);
  void add_directory(const EntryPath& path, const TarEntry& entry);
  void add_file(const EntryPath& path, const TarEntry& entry, EntryData& data);
  void add_symlink(const EntryPath& path, const TarEntry& entry);
  void add_fifo(const EntryPath& path, const TarEntry& entry);
  void add_hard_link(const EntryPath& path, const TarEntry& entry);
  os::UniqueFd create_file(const LayerTree::Place& parent, const std::string& name, mode_t mode);
  void write_data(const os::UniqueFd& file, const TarEntry& entry, EntryData& data);
  static void describe(DirectoryState& state, const TarEntry& entry);
  static void finish_node(const LayerTree::Place& parent, const std::string& name,
                          const TarEntry& entry);
  enum class Existing : std::uint8_t { replace, keep };
  bool link(const WaitingLink& link, Existing existing);
  void finish_link(const WaitingLink& link);
  EntryPath take_from_parents(const EntryPath& target);
  void describe_implied();

  Place place_;
  LayerTree tree_;
  std::vector<WaitingLink> waiting_;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace daiv::images::unpack
