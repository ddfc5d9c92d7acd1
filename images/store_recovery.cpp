#include "images/store_recovery.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "images/layer_name.hpp"
#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

void empty_directory(const std::string& path) {
  const os::UniqueFd directory = os::open_file(path, O_RDONLY | O_DIRECTORY);
  for (const std::string& name : os::list_directory(directory)) os::remove_tree_at(directory, name);
}

void remove_unfinished_blobs(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;
  const os::UniqueFd directory(os::check(fd, "open", path));
  for (const std::string& name : os::list_directory(directory)) {
    if (name.starts_with(".tmp-")) os::remove_tree_at(directory, name);
  }
}

void reconcile(ImageDatabase& database, LayerBackend& backend) {
  std::vector<std::string> lost;
  for (const LayerRecord& layer : database.doubtful_layers()) lost.push_back(layer.diff_id);
  const std::vector<std::string> names = backend.list();
  const std::set<std::string> existing(names.begin(), names.end());
  for (const LayerRecord& layer : database.layers()) {
    if (!layer.name.empty() && !existing.contains(layer.name)) lost.push_back(layer.diff_id);
  }
  if (!lost.empty()) database.forget_layers(lost);
  std::set<std::string> known;
  for (const LayerRecord& layer : database.layers()) known.insert(layer.name);
  std::vector<std::string> garbage;
  for (const std::string& name : existing) {
    if (is_layer_name(name) && !known.contains(name)) garbage.push_back(name);
  }
  if (!garbage.empty()) backend.remove(garbage);
}

}  // namespace

FileLock recover_store(const std::string& state_dir, ImageDatabase& database,
                       LayerBackend& backend) {
  const std::string path = state_dir + "/images.lock";
  if (auto alone = FileLock::try_lock(path, LockKind::exclusive)) {
    reconcile(database, backend);
    empty_directory(state_dir + "/tmp");
    empty_directory(state_dir + "/locks");
    remove_unfinished_blobs(state_dir + "/blobs/sha256");
    alone->share();
    return std::move(*alone);
  }
  return std::move(*FileLock::wait_lock(path, LockKind::shared, {}));
}

}  // namespace daiv::images
