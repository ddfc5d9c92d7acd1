#include "images/image_service.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <shared_mutex>
#include <utility>

#include "images/blob_store.hpp"
#include "images/chain_id.hpp"
#include "images/durable_layers.hpp"
#include "images/file_lock.hpp"
#include "images/image_cache.hpp"
#include "images/image_database.hpp"
#include "images/layer_assembly.hpp"
#include "images/layer_pins.hpp"
#include "images/layer_store.hpp"
#include "images/load_archive.hpp"
#include "images/load_layout.hpp"
#include "images/manifest.hpp"
#include "images/prune.hpp"
#include "images/reference.hpp"
#include "images/registry_client.hpp"
#include "images/single_flight.hpp"
#include "images/store_recovery.hpp"
#include "os/crash_point.hpp"
#include "os/disk_space.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

// How often an image is put together again because a prune took a layer that was there when the
// pull began.
constexpr int max_lost_layer_retries = 5;
constexpr std::uint64_t progress_step_bytes = std::uint64_t{1} << 19U;

using Stage = PullEvent::Stage;

void notify(const PullObserver& observer, const PullEvent& event) {
  if (observer) observer(event);
}

// What went wrong in the store itself, as callers of the service see it.
template <typename Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const os::Error& error) {
    const bool full = error.error_number() == ENOSPC || error.error_number() == EDQUOT;
    throw ImageError(
        full ? ImageFailure::no_space : ImageFailure::internal,
        full ? fmt::format("no space left for images: {}", error.what()) : error.what());
  }
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) os::throw_errno("mkdir", path);
}

std::string prepare_state_dir(const std::string& state_dir) {
  for (const char* part : {"", "/tmp", "/blobs", "/locks"}) make_directory(state_dir + part);
  return state_dir;
}

void check_layer_count(std::size_t count) {
  if (count <= max_layers) return;
  throw ImageError(
      ImageFailure::invalid_image,
      fmt::format("the image has {} layers; the kernel mounts {} at most", count, max_layers));
}

ImageRecord make_record(std::string id, std::string config, const ConfigFile& parsed) {
  ImageRecord record{std::move(id), std::move(config), {}, {}, std::chrono::system_clock::now()};
  for (const Digest& diff_id : parsed.diff_ids) record.diff_ids.push_back(diff_id.string());
  for (const Digest& chain_id : chain_ids(parsed.diff_ids))
    record.chain_ids.push_back(chain_id.string());
  return record;
}

// The broker refuses to unpack as well; here nothing is fetched or copied in vain.
void check_disk(const ImageSettings& settings) {
  std::string shortage = os::find_disk_shortage(settings.state_dir, settings.min_free_bytes);
  if (!shortage.empty()) throw ImageError(ImageFailure::no_space, std::move(shortage));
}

// Bytes above the watermark of the file system that `path` is on.
std::uint64_t bytes_over_watermark(const std::string& path, double fraction) {
  struct statvfs status{};
  os::check(::statvfs(path.c_str(), &status), "statvfs", path);
  const double block = static_cast<double>(status.f_frsize);
  const double used = static_cast<double>(status.f_blocks - status.f_bfree) * block;
  // What is kept for root (f_bfree over f_bavail) is not there for the daemon's front.
  const double total =
      static_cast<double>(status.f_blocks - status.f_bfree + status.f_bavail) * block;
  const double over = used - total * fraction;
  return over > 0 ? static_cast<std::uint64_t>(over) : 0;
}

}  // namespace

struct ImageService::Impl {
  Impl(ImageSettings given, LayerBackend& layer_backend)
      : settings(std::move(given)),
        backend(layer_backend),
        state_dir(prepare_state_dir(settings.state_dir)),
        database(state_dir + "/images.db"),
        presence(recover_store(state_dir, database, backend)),
        blobs(state_dir + "/blobs", settings.blobs),
        layers(database, backend, state_dir + "/locks"),
        pins(state_dir + "/images.pins"),
        assembly(database, layers, pins, std::max(settings.parallel_layers, 1U)),
        cache(database),
        durable(database, state_dir),
        registry(registry_settings(settings, backend)),
        platform(host_platform(settings.architecture)) {
    durable.sync_all();
  }

  Image pull(const Reference& reference, const PullObserver& observer, const std::stop_token& stop);
  bool is_current(const Reference& reference, const std::stop_token& stop);
  std::optional<Image> hand_out(const std::string& reference);
  ImageTask plan(const std::shared_ptr<const Resolved>& resolved, const PullObserver& observer);
  WantedLayer wanted(const std::shared_ptr<const Resolved>& resolved, std::size_t index,
                     const PullObserver& observer);
  std::vector<Image> carry_out(const ImageTask& task, const PullObserver& observer,
                               const std::stop_token& stop);
  std::vector<Image> load(const os::UniqueFd& input, const PullObserver& observer,
                          const std::stop_token& stop);
  PruneReport prune(PruneScope scope, const std::function<std::vector<std::string>()>& in_use);

  ImageSettings settings;
  LayerBackend& backend;
  std::string state_dir;
  ImageDatabase database;
  FileLock presence;  // tells other processes that this one is at work here
  BlobStore blobs;
  LayerStore layers;
  LayerPins pins;
  LayerAssembly assembly;
  ImageCache cache;
  DurableLayers durable;
  RegistryClient registry;
  Platform platform;
  SingleFlight<Image> flights;
  std::shared_mutex
      users;  // shared: an image is handed out; exclusive: it is decided what nobody uses
};

// Streams one blob of a registry's image, from the blobs that were kept or from the registry.
WantedLayer ImageService::Impl::wanted(const std::shared_ptr<const Resolved>& resolved,
                                       std::size_t index, const PullObserver& observer) {
  const ResolvedLayer& layer = resolved->layers[index];
  // The task and its stream share what was resolved.
  return {layer.diff_id, [this, resolved, blob = layer.blob, observer](
                             BlobSink& sink, const std::stop_token& stop) {
            if (const auto kept = blobs.find(blob.digest))
              return blobs.stream(blob.digest, *kept, sink, stop);
            std::uint64_t shown = 0;
            const auto progress = [&](std::uint64_t delivered) {
              if (delivered - shown < progress_step_bytes && delivered != blob.size) return;
              shown = delivered;
              notify(observer, {blob.digest.string(), Stage::downloading, delivered, blob.size});
            };
            if (!blobs.keeps()) return registry.fetch_blob(*resolved, blob, sink, progress, stop);
            BlobStore::Tee tee(blobs, sink);
            registry.fetch_blob(*resolved, blob, tee, progress, stop);
            tee.commit(blob.digest);
          }};
}

ImageTask ImageService::Impl::plan(const std::shared_ptr<const Resolved>& resolved,
                                   const PullObserver& observer) {
  check_layer_count(resolved->layers.size());
  ImageTask task;
  task.image =
      make_record(resolved->config_blob.digest.string(), resolved->config_bytes, resolved->config);
  task.references.push_back(
      {resolved->reference.string(), task.image.id, resolved->digest.string()});
  for (std::size_t i = 0; i < resolved->layers.size(); ++i) {
    const Descriptor& blob = resolved->layers[i].blob;
    task.layers.push_back({wanted(resolved, i, observer), blob.digest.string(), blob.size});
  }
  return task;
}

std::vector<Image> ImageService::Impl::carry_out(const ImageTask& task,
                                                 const PullObserver& observer,
                                                 const std::stop_token& stop) {
  for (int attempt = 0; attempt <= max_lost_layer_retries; ++attempt) {
    const auto pinned = assembly.obtain(task, observer, stop);
    os::crash_point("front.pull.layers_obtained");
    const std::shared_lock lock(users);
    std::vector<Image> images;
    for (const ReferenceRecord& reference : task.references) {
      if (!database.add_image(task.image, reference)) break;
      cache.clear();
      if (auto image = hand_out(reference.reference)) images.push_back(std::move(*image));
    }
    if (images.size() != task.references.size()) continue;
    durable.sync_all();
    notify(observer, {"", Stage::done, 0, 0});
    return images;
  }
  throw ImageError(ImageFailure::cancelled,
                   "layers of the image are removed as fast as they are pulled");
}

// The image of a reference, pinned; empty where it is not here. With `users` locked.
std::optional<Image> ImageService::Impl::hand_out(const std::string& reference) {
  auto image = cache.find(reference);
  while (image) {
    image->pin = pins.hold(image->layers);
    // Another process may have removed them between the look and the pin.
    auto again = cache.find(reference);
    if (again && again->layers == image->layers) break;
    image = std::move(again);
  }
  return image;
}

bool ImageService::Impl::is_current(const Reference& reference, const std::stop_token& stop) {
  const auto record = database.find_reference(reference.string());
  return record && registry.resolve_digest(reference, stop).string() == record->digest;
}

Image ImageService::Impl::pull(const Reference& reference, const PullObserver& observer,
                               const std::stop_token& stop) {
  notify(observer, {"", Stage::resolving, 0, 0});
  const auto resolved = std::make_shared<const Resolved>(registry.resolve(reference, stop));
  check_disk(settings);
  blobs.add(resolved->manifest_digest, resolved->manifest);
  blobs.add(resolved->config_blob.digest, resolved->config_bytes);
  return std::move(carry_out(plan(resolved, observer), observer, stop).front());
}

std::vector<Image> ImageService::Impl::load(const os::UniqueFd& input, const PullObserver& observer,
                                            const std::stop_token& stop) {
  check_disk(settings);
  const LoadArchive archive(input, state_dir + "/tmp", stop);
  std::vector<Image> loaded;
  for (ArchivedImage& archived : read_layout(archive, platform)) {
    check_layer_count(archived.layers.size());
    ImageTask task;
    task.image = make_record(archived.id, std::move(archived.config_bytes), archived.config);
    for (auto& reference : archived.references)
      task.references.push_back({std::move(reference), archived.id, ""});
    for (std::size_t i = 0; i < archived.layers.size(); ++i) {
      const auto& member = *archived.layers[i];
      const auto stream = [&member](BlobSink& sink, const std::stop_token& inner_stop) {
        stream_member(member, sink, inner_stop);
      };
      task.layers.push_back(
          {{archived.config.diff_ids[i], stream}, member.digest->string(), member.size});
    }
    for (Image& image : carry_out(task, observer, stop)) loaded.push_back(std::move(image));
  }
  return loaded;
}

ImageService::PruneReport ImageService::Impl::prune(
    PruneScope scope, const std::function<std::vector<std::string>()>& in_use) {
  const std::unique_lock lock(users);
  cache.flush();
  PruneInput input;
  input.scope = scope;
  if (scope == PruneScope::above_watermark) {
    input.bytes_over_watermark =
        bytes_over_watermark(state_dir, settings.prune_above_used_fraction);
    if (input.bytes_over_watermark == 0) return {};
  }
  for (std::string& name : in_use()) input.used_names.insert(std::move(name));
  input.images = database.images();
  input.references = database.references();
  input.layers = database.layers();
  std::vector<std::string> all_names;
  for (const LayerRecord& layer : input.layers) {
    if (!layer.name.empty()) all_names.push_back(layer.name);
  }
  const LayerPins::Claim claim = pins.claim(all_names);
  input.used_names.insert(claim.pinned().begin(), claim.pinned().end());
  PrunePlan plan = plan_prune(input);
  const auto removed = database.remove(plan.images, plan.diff_ids);
  cache.clear();
  PruneReport report;
  report.images = std::move(plan.references);
  std::vector<std::string> names;
  for (const LayerRecord& layer : removed) {
    report.freed_bytes += layer.bytes;
    if (!layer.name.empty()) names.push_back(layer.name);
  }
  report.layers = names.size();
  // Records first: a crash in between leaves directories that nobody trusts, and recovery removes
  // them.
  os::crash_point("front.prune.forgotten");
  if (!names.empty()) backend.remove(names);
  return report;
}

ImageService::ImageService(ImageSettings settings, LayerBackend& backend)
    : impl_(translated([&] { return std::make_unique<Impl>(std::move(settings), backend); })) {}

ImageService::~ImageService() {
  try {
    impl_->cache.flush();
  } catch (const std::exception&) {
    return;  // the times of last use of the last minute are lost, nothing else
  }
}

Image ImageService::ensure(const std::string& reference, PullPolicy policy,
                           const PullObserver& observer, std::stop_token stop) {
  return translated([&] {
    const auto present = [&](const std::string& key) {
      const std::shared_lock lock(impl_->users);
      return impl_->hand_out(key);
    };
    // An image without a name goes by its id, which no registry knows.
    if (Digest::parse(reference)) {
      if (auto image = present(reference)) return std::move(*image);
      throw ImageError(ImageFailure::not_found,
                       fmt::format("there is no image {} on this host", reference));
    }
    const auto parsed = parse_reference(reference);
    if (!parsed) throw ImageError(ImageFailure::invalid_reference, parsed.error().text);
    const std::string key = parsed->string();
    if (policy == PullPolicy::if_missing) {
      if (auto image = present(key)) return std::move(*image);
    }
    return impl_->flights.run(key, stop, [&] {
      // Another flight may have landed since the first look; a digest never moves.
      if (policy == PullPolicy::if_missing || parsed->digest || impl_->is_current(*parsed, stop)) {
        if (auto image = present(key)) return std::move(*image);
      }
      return impl_->pull(*parsed, observer, stop);
    });
  });
}

std::vector<Image> ImageService::load(const os::UniqueFd& input, const PullObserver& observer,
                                      std::stop_token stop) {
  return translated([&] { return impl_->load(input, observer, stop); });
}

std::vector<Image> ImageService::list() {
  return translated([&] {
    impl_->cache.flush();
    std::vector<Image> images;
    for (const ReferenceRecord& reference : impl_->database.references()) {
      if (auto image = impl_->cache.read(reference)) images.push_back(std::move(*image));
    }
    return images;
  });
}

bool ImageService::remove(const std::string& reference) {
  return translated([&] {
    const auto parsed =
        Digest::parse(reference) ? std::nullopt : std::optional(parse_reference(reference));
    if (parsed && !*parsed) throw ImageError(ImageFailure::invalid_reference, parsed->error().text);
    const bool removed = impl_->database.remove_reference(parsed ? (*parsed)->string() : reference);
    impl_->cache.clear();
    return removed;
  });
}

ImageService::PruneReport ImageService::prune(
    PruneScope scope, const std::function<std::vector<std::string>()>& in_use) {
  return translated([&] { return impl_->prune(scope, in_use); });
}

}  // namespace daiv::images
