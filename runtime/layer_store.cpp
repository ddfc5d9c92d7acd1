#include "runtime/layer_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/directory.hpp"
#include "runtime/names.hpp"
#include "runtime/parent_layers.hpp"
#include "runtime/session_store.hpp"
#include "runtime/trash.hpp"
#include "runtime/unpack_process.hpp"

namespace daiv::runtime {
namespace {

constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view pending_prefix = ".pending-";
constexpr std::size_t max_boot_id_bytes = 256;

std::string with_prefix(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name);
}

enum class UnpackStatus : std::uint8_t {
  ok,
  corrupt,
  no_space,
  too_large,
  internal,
  needs_parents
};

Failure failure_of(UnpackStatus status) {
  switch (status) {
    case UnpackStatus::corrupt:
      return Failure::corrupt_layer;
    case UnpackStatus::no_space:
      return Failure::no_space;
    case UnpackStatus::too_large:
      return Failure::invalid;
    case UnpackStatus::ok:
    case UnpackStatus::needs_parents:
    case UnpackStatus::internal:
      return Failure::internal;
  }
  throw wire::DecodeError("unpack status");
}

}  // namespace

Answer parse_unpack_result(std::string_view bytes) {
  wire::Reader in(bytes);
  const auto status = static_cast<UnpackStatus>(in.u8());
  std::string message(in.text());
  Unpacked unpacked;
  unpacked.diff_id = std::string(in.text());
  unpacked.unpacked_bytes = in.u64();
  unpacked.entries = in.u64();
  unpacked.hides_below = in.boolean();
  unpacked.needs_parents = status == UnpackStatus::needs_parents;
  in.finish();
  if (status != UnpackStatus::ok && !unpacked.needs_parents)
    return Failed{failure_of(status), std::move(message)};
  if (!is_diff_id(unpacked.diff_id)) throw wire::DecodeError("diff id");
  return unpacked;
}

LayerStore::LayerStore(const BrokerOptions& options)
    : ranges_(options.ranges),
      program_(options.unpack),
      layers_(open_or_make(options.state_dir + "/layers", 0700)),
      trash_(open_or_make(options.state_dir + "/trash", 0700)) {
  // The root of a session looks its layers up, through a mount that shows it the storage range as
  // its own.
  const std::uint32_t owner = ranges_.storage_base();
  os::check(::fchown(layers_.get(), owner, owner), "fchown", "layers");
}

std::vector<std::string> LayerStore::list() const {
  std::vector<std::string> names = list_directories(layers_);
  std::erase_if(names, [](const std::string& name) { return !is_layer_name(name); });
  return names;
}

std::string LayerStore::find_missing(const std::vector<std::string>& layers) const {
  for (const std::string& layer : layers)
    if (::faccessat(layers_.get(), layer.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) return layer;
  return {};
}

Answer LayerStore::unpack(const UnpackLayer& request, const os::UniqueFd& input) {
  if (find_missing({request.layer}).empty())
    return Failed{Failure::invalid, fmt::format("layer {} exists", request.layer)};
  if (const std::string parent = find_missing(request.parents); !parent.empty())
    return Failed{Failure::not_found, fmt::format("layer {} does not exist", parent)};
  const std::string temporary = with_prefix(temporary_prefix, request.layer);
  const Owner owner{ranges_.storage_base(), ranges_.storage_base()};
  try {
    move_to_trash(layers_, temporary, trash_);
    open_own_directory(layers_, temporary, 0755, owner);
    const os::UniqueFd directory =
        os::open_at(layers_, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    os::crash_point("broker.unpack.begin");
    const UnpackJob job{program_, ranges_.storage_base(), request.max_unpacked_bytes,
                        request.max_entries, request.above_others};
    const os::UniqueFd parents = mount_parents(layers_, request.parents);
    Answer answer = take_in(request, temporary, run_unpacker(job, input, directory, parents));
    move_to_trash(layers_, temporary, trash_);
    return answer;
  } catch (...) {
    move_to_trash(layers_, temporary, trash_);
    throw;
  }
}

Answer LayerStore::take_in(const UnpackLayer& request, const std::string& temporary,
                           std::string_view result) {
  Answer answer = parse_unpack_result(result);
  const auto* unpacked = std::get_if<Unpacked>(&answer);
  if (unpacked == nullptr) return answer;
  if (!request.expected_diff_id.empty() && unpacked->diff_id != request.expected_diff_id) {
    return Failed{Failure::corrupt_layer, fmt::format("diff id {} where {} was expected",
                                                      unpacked->diff_id, request.expected_diff_id)};
  }
  if (unpacked->needs_parents) return answer;
  // The mark comes before the name: a layer without a mark is one that is on the disk.
  replace_file(layers_, with_prefix(pending_prefix, request.layer), read_boot_id());
  os::crash_point("broker.unpack.marked");
  os::check(::renameat2(layers_.get(), temporary.c_str(), layers_.get(), request.layer.c_str(),
                        RENAME_NOREPLACE),
            "renameat2", request.layer);
  os::crash_point("broker.unpack.stored");
  return answer;
}

void LayerStore::remove(const std::vector<std::string>& layers) {
  for (const std::string& layer : layers) {
    move_to_trash(layers_, layer, trash_);
    os::crash_point("broker.prune.in_trash");
    ::unlinkat(layers_.get(), with_prefix(pending_prefix, layer).c_str(), 0);
  }
}

void LayerStore::recover() {
  const std::string boot_id = read_boot_id();
  for (const std::string& name : list_entries(layers_)) {
    if (name.starts_with(temporary_prefix)) move_to_trash(layers_, name, trash_);
    if (!name.starts_with(pending_prefix)) continue;
    const os::UniqueFd mark = os::open_at(layers_, name, O_RDONLY | O_NOFOLLOW);
    if (os::read_all(mark, max_boot_id_bytes) == boot_id) continue;
    remove({name.substr(pending_prefix.size())});
  }
}

void LayerStore::flush() {
  std::vector<std::string> pending = list_entries(layers_);
  std::erase_if(pending, [](const std::string& name) { return !name.starts_with(pending_prefix); });
  if (pending.empty()) return;
  os::check(::syncfs(layers_.get()), "syncfs", "layers");
  for (const std::string& name : pending) ::unlinkat(layers_.get(), name.c_str(), 0);
}

}  // namespace daiv::runtime
