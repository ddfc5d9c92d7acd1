#include "images/unpack/layer_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "images/unpack/parents.hpp"
#include "images/unpack/unpack_error.hpp"
#include "images/unpack/whiteout.hpp"
#include "os/attack_switches.hpp"
#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images::unpack {

namespace {

constexpr mode_t permission_bits = 0777;
constexpr mode_t all_bits = 07777;

[[noreturn]] void throw_corrupt(std::string why) {
  throw UnpackError(Status::corrupt, std::move(why));
}

// What an errno means for the layer: what a file system refuses for the name, the link or the size
// is the layer's fault, the rest is the host's.
Status status_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return Status::no_space;
    case ENAMETOOLONG:
    case ELOOP:
    case EFBIG:
    case EMLINK:
    case EILSEQ:
      return Status::corrupt;
    default:
      return Status::internal;
  }
}

std::string describe_owner(const TarEntry& entry) {
  return fmt::format("owner {}:{} is outside 0 to {}", entry.uid, entry.gid, max_owner_id);
}

UnpackError named(const std::string& path, Status status, const std::exception& error) {
  return {status, fmt::format("{}: {}", printable(path), error.what())};
}

void set_xattrs(const os::UniqueFd& file, const TarEntry& entry) {
  for (const auto& [name, value] : entry.xattrs) {
    if (!keeps_xattr(name)) continue;
    try {
      os::set_xattr(file, name, value);
    } catch (const os::Error& error) {
      // A file system without such attributes: as Docker does it, the file is kept without.
      if (error.error_number() == EOPNOTSUPP) continue;
      // ext4 says ENOSPC for a value over one block: the disk is not full (xattr(7)).
      throw_corrupt(fmt::format("extended attribute {} cannot be kept: {}", printable(name),
                                os::describe_errno(error.error_number())));
    }
  }
}

// What the careless do, for the defence that is off: the link takes the place of the layer's root,
// and what follows is written where it leads. The descriptor keeps its number, by which all others
// know the root.
void replace_root(const os::UniqueFd& root, const std::string& target) {
  const os::UniqueFd moved = os::open_file(target, O_PATH | O_DIRECTORY);
  ::close(root.get());
  os::check(::fcntl(moved.get(), F_DUPFD_CLOEXEC, root.get()), "fcntl", "F_DUPFD_CLOEXEC");
}

}  // namespace

LayerWriter::LayerWriter(const Place& place) : place_(place), tree_(place.root) {}

void LayerWriter::add(const TarEntry& entry, EntryData& data) {
  ++entries_;
  try {
    add_checked(entry, data);
  } catch (const os::Error& error) {
    throw named(entry.path, status_of(error.error_number()), error);
  } catch (const UnpackError& error) {
    throw named(entry.path, error.status(), error);
  }
}

void LayerWriter::add_checked(const TarEntry& entry, EntryData& data) {
  const auto path = plan_entry_path(entry.path);
  if (!path) throw_corrupt(path.error());
  if (path->is_root()) return add_root(entry);
  const auto whiteout = classify_whiteout(*path);
  if (!whiteout) throw_corrupt(whiteout.error());
  switch (whiteout->kind) {
    case WhiteoutKind::none:
      break;
    case WhiteoutKind::ignored:
      return;
    case WhiteoutKind::removes:
      return add_whiteout(*path, whiteout->target);
    case WhiteoutKind::opaque:
      tree_.find(tree_.enter(path->parent).path)->opaque = true;
      return;
  }
  if (!is_valid_owner(entry.uid) || !is_valid_owner(entry.gid)) {
    throw_corrupt(describe_owner(entry));
  }
  switch (entry.type) {
    case EntryType::file:
      return add_file(*path, entry, data);
    case EntryType::directory:
      return add_directory(*path, entry);
    case EntryType::symlink:
      return add_symlink(*path, entry);
    case EntryType::hard_link:
      return add_hard_link(*path, entry);
    case EntryType::fifo:
      return add_fifo(*path, entry);
    case EntryType::device:
    case EntryType::socket:
      return;
  }
}

void LayerWriter::add_root(const TarEntry& entry) {
  // A root that is a symlink would move the whole layer (CVE-2021-29136).
  if (entry.type == EntryType::symlink && !os::defence_is_on(os::Defence::root_entry))
    return replace_root(place_.root, entry.link);
  if (entry.type != EntryType::directory) throw_corrupt("the layer's root is not a directory");
  describe(*tree_.find(""), entry);
}

void LayerWriter::describe(DirectoryState& state, const TarEntry& entry) {
  if (!is_valid_owner(entry.uid) || !is_valid_owner(entry.gid))
    throw_corrupt(describe_owner(entry));
  state.implicit = false;
  state.mode = entry.mode & all_bits;
  state.uid = static_cast<uid_t>(entry.uid);
  state.gid = static_cast<gid_t>(entry.gid);
  state.mtime = entry.mtime;
  state.xattrs.clear();
  for (const auto& attribute : entry.xattrs) {
    if (keeps_xattr(attribute.first)) state.xattrs.push_back(attribute);
  }
}

void LayerWriter::add_whiteout(const EntryPath& path, const std::string& target) {
  const auto parent = tree_.enter(path.parent);
  // Device 0/0 needs no CAP_MKNOD, also in a user namespace (mknod(2), Linux 5.8).
  if (os::make_node_at(parent.fd, target, S_IFCHR, 0) == os::Made::yes) return;
  // What this layer brings stays, but of a directory nothing from below may shine through.
  if (auto* state = tree_.find(join_path(parent.path, target))) state->opaque = true;
}

void LayerWriter::add_directory(const EntryPath& path, const TarEntry& entry) {
  describe(tree_.make_directory(tree_.enter(path.parent), path.name), entry);
}

os::UniqueFd LayerWriter::create_file(const LayerTree::Place& parent, const std::string& name,
                                      mode_t mode) {
  for (;;) {
    if (auto file = os::create_file_at(parent.fd, name, mode)) return std::move(*file);
    tree_.remove(parent, name);
  }
}

void LayerWriter::add_file(const EntryPath& path, const TarEntry& entry, EntryData& data) {
  const os::UniqueFd file =
      create_file(tree_.enter(path.parent), path.name, entry.mode & permission_bits);
  write_data(file, entry, data);
  if (entry.uid != 0 || entry.gid != 0) {
    os::set_owner(file, static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid));
  }
  // A write and a new owner both take set-id bits and file capabilities away: these come after
  // (chown(2), write(2)).
  if ((entry.mode & all_bits & ~permission_bits) != 0) os::set_mode(file, entry.mode & all_bits);
  set_xattrs(file, entry);
  os::set_modified(file, entry.mtime);
}

void LayerWriter::write_data(const os::UniqueFd& file, const TarEntry& entry, EntryData& data) {
  std::uint64_t end = 0;
  while (const auto block = data.next_block()) {
    os::write_at(file, block->bytes, block->offset);
    end = block->offset + block->bytes.size();
    bytes_ += block->bytes.size();
  }
  if (end < entry.size) os::set_length(file, entry.size);
}

void LayerWriter::add_symlink(const EntryPath& path, const TarEntry& entry) {
  if (entry.link.empty()) throw_corrupt("a symlink without a target");
  const auto parent = tree_.enter(path.parent);
  while (os::make_symlink_at(entry.link, parent.fd, path.name) == os::Made::exists)
    tree_.remove(parent, path.name);
  finish_node(parent, path.name, entry);
}

void LayerWriter::add_fifo(const EntryPath& path, const TarEntry& entry) {
  const auto parent = tree_.enter(path.parent);
  const mode_t mode = S_IFIFO | (entry.mode & permission_bits);
  while (os::make_node_at(parent.fd, path.name, mode, 0) == os::Made::exists)
    tree_.remove(parent, path.name);
  finish_node(parent, path.name, entry);
}

void LayerWriter::finish_node(const LayerTree::Place& parent, const std::string& name,
                              const TarEntry& entry) {
  if (entry.uid != 0 || entry.gid != 0) {
    os::set_owner_at(parent.fd, name, static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid));
  }
  os::set_modified_at(parent.fd, name, entry.mtime);
}

void LayerWriter::add_hard_link(const EntryPath& path, const TarEntry& entry) {
  auto target = plan_entry_path(entry.link);
  if (!target)
    throw_corrupt(fmt::format("its target {}: {}", printable(entry.link), target.error()));
  if (target->is_root()) throw_corrupt("a hard link to the layer's root");
  if (*target == path) return;
  const WaitingLink wanted{path, std::move(*target)};
  if (!link(wanted, Existing::replace)) waiting_.push_back(wanted);
}

// False where there is nothing that can be linked to.
bool LayerWriter::link(const WaitingLink& wanted, Existing existing) {
  const auto target_parent = tree_.find_directory(wanted.target.parent);
  if (!target_parent) return false;
  const os::UniqueFd target_directory = tree_.open(*target_parent);
  const auto target = os::stat_at(target_directory, wanted.target.name);
  // A whiteout is not the file of that name but its absence.
  if (!target || S_ISCHR(target->st_mode)) return false;
  if (S_ISDIR(target->st_mode))
    throw_corrupt(
        fmt::format("a hard link to the directory {}", printable(wanted.target.string())));
  const auto parent = tree_.enter(wanted.path.parent);
  // Two names of one inode already: taking the old one away first could take the target away.
  if (parent.path == *target_parent && wanted.path.name == wanted.target.name) return true;
  for (;;) {
    const auto linked =
        os::make_link_at(target_directory, wanted.target.name, parent.fd, wanted.path.name);
    if (linked == os::Linked::yes) return true;
    if (linked == os::Linked::no_target) return false;
    const auto taken = os::stat_at(parent.fd, wanted.path.name);
    if (existing == Existing::keep && taken && !S_ISCHR(taken->st_mode)) return true;
    tree_.remove(parent, wanted.path.name);
  }
}

void LayerWriter::finish_link(const WaitingLink& wanted) {
  if (link(wanted, Existing::keep)) return;
  if (!place_.parents) {
    throw UnpackError(Status::needs_parents, fmt::format("a hard link to {}, which is not here",
                                                         printable(wanted.target.string())));
  }
  if (!link({wanted.path, take_from_parents(wanted.target)}, Existing::keep)) {
    throw_corrupt(fmt::format("a hard link to {}, which cannot be linked to",
                              printable(wanted.target.string())));
  }
}

EntryPath LayerWriter::take_from_parents(const EntryPath& target) {
  ParentsFile source = open_parents_file(place_.parents, target);
  const auto parent = tree_.enter(source.path.parent);
  // What this layer has of that name hides the file, a whiteout too.
  if (!os::stat_at(parent.fd, source.path.name)) {
    bytes_ += copy_file(source.file, create_file(parent, source.path.name, S_IRUSR | S_IWUSR));
  }
  return std::move(source.path);
}

// What Docker makes root's, 0755, and containerd leaves as it is below (image-spec issue 737):
// else a layer with tmp/file alone would take everybody's right to write in /tmp away.
void LayerWriter::describe_implied() {
  if (place_.parents) return describe_by_parents(place_.parents, tree_);
  if (!place_.above_others || hides_below()) return;
  tree_.for_each_implicit([](const std::string& path, const DirectoryState& state) {
    if (path.empty() || state.opaque) return;
    throw UnpackError(Status::needs_parents,
                      fmt::format("{} has no entry of its own", printable(path)));
  });
}

void LayerWriter::finish() {
  for (const WaitingLink& wanted : waiting_) {
    const std::string name = wanted.path.string();
    try {
      finish_link(wanted);
    } catch (const os::Error& error) {
      throw named(name, status_of(error.error_number()), error);
    } catch (const UnpackError& error) {
      throw named(name, error.status(), error);
    }
  }
  try {
    describe_implied();
    tree_.apply_states();
  } catch (const os::Error& error) {
    throw UnpackError(status_of(error.error_number()), error.what());
  }
}

}  // namespace daiv::images::unpack
