#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::images {

// What an image brings along that a session needs (OCI image spec, config.md).
struct ImageConfig {
  std::vector<std::string>
      environment;   // NAME=value; entries without "=" are dropped, the last of a name wins
  std::string user;  // as written; commands run as RUN_UID whatever it says
  std::string working_dir;
};

// An image that is whole on this host.
struct Image {
  std::string id;         // digest of its configuration, "sha256:…"
  std::string reference;  // as asked for, in full form: "docker.io/library/debian:12"
  ImageConfig config;
  std::vector<std::string>
      layers;  // names of layer directories, bottom first; empty layers left out
  std::uint64_t unpacked_bytes = 0;
  std::chrono::system_clock::time_point last_used;
  // Where ensure() or load() gave the image: while a copy of it lives (they share this), prune()
  // leaves its layers alone, in this process and any other on the state directory. Keep it until
  // what will be told by `in_use` is.
  std::shared_ptr<const void> pin = {};
};

// Why an image could not be had; decides the API's status.
enum class ImageFailure {
  invalid_reference,  // 400
  not_found,          // 400: unknown image, or no permission to know
  denied,             // 400
  wrong_platform,     // 400
  invalid_image,      // 400: corrupt layer, invalid whiteout, too many layers…
  blocked,            // 400: registries.conf forbids it
  unreachable,        // 503
  rate_limited,       // 503
  no_space,           // 503
  cancelled,
  internal,  // 500
};

class ImageError : public std::exception {
public:
  ImageError(ImageFailure failure, std::string text) : failure_(failure), text_(std::move(text)) {}
  [[nodiscard]] ImageFailure failure() const noexcept { return failure_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  ImageFailure failure_;
  std::string text_;
};

// Where layers become directories; the broker stands behind it (wired in cli/).
class LayerBackend {
public:
  struct Unpacked {
    enum class State {
      whole,
      needs_parents,  // what lies below it matters: to be unpacked again with `parents`
    } state = State::whole;
    std::string diff_id;
    std::uint64_t unpacked_bytes = 0;
    std::uint64_t entries = 0;
    bool hides_below = false;  // an opaque whiteout at its root: nothing of what lies below shows
  };
  // The layers below one, bottom first; empty where those are not there yet.
  using Parents = std::optional<std::vector<std::string>>;
  virtual ~LayerBackend() = default;
  // Unpacks what `input` (read end of a pipe) gives into a new layer called `name`; blocks until it
  // ended. From `parents` it takes files that it links to and does not have itself, and what the
  // directories are like that it has no entry for; where they are not there it is `needs_parents`,
  // and then, as after an ImageError{invalid_image | no_space | internal}, no layer of that name
  // exists.
  virtual Unpacked unpack(const std::string& name, const std::string& expected_diff_id,
                          const os::UniqueFd& input, const Parents& parents) = 0;
  virtual void remove(const std::vector<std::string>& names) = 0;
  virtual std::vector<std::string> list() = 0;
  // What docker-credential-<helper> get prints for `server`; throws ImageError{denied}.
  virtual std::string credential(const std::string& helper, const std::string& server) = 0;
};

// One step of a pull for whoever watches it; called from pulling threads, must not block.
struct PullEvent {
  std::string layer;  // digest, or empty for the image itself
  enum class Stage {
    resolving,
    waiting,
    downloading,
    unpacking,
    done,
    exists
  } stage = Stage::resolving;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
};
using PullObserver = std::function<void(const PullEvent&)>;

enum class PullPolicy { if_missing, always };
enum class BlobRetention { drop, keep };

struct ImageSettings {
  std::string
      state_dir;  // the front's own part of the state directory: database, blobs, temporary files
  std::string registry_auth_file;  // DAIV_SANDBOX_REGISTRY_AUTH_FILE; empty: none
  std::string registries_conf = "/etc/containers/registries.conf";
  std::string https_proxy;  // "http://proxy:3128"; empty: none (the environment is not read here)
  std::string http_proxy;
  std::string no_proxy;      // comma separated
  std::string architecture;  // "amd64", "arm64"; empty: this machine's
  BlobRetention blobs = BlobRetention::drop;
  unsigned parallel_layers = 3;
  std::uint64_t max_layer_bytes = 0;       // unpacked, 0: none
  double prune_above_used_fraction = 0.9;  // of the file system that holds the layers
  std::chrono::seconds no_progress_limit{60};
  std::uint64_t min_free_bytes =
      0;  // with less on the disk of `state_dir`, nothing is brought; 0: none
};

// Images on this host: finds, pulls, loads and removes them. Thread-safe; every call may block, so
// the front calls it on its pool. Safe beside a second process on the same state directory.
class ImageService {
public:
  ImageService(ImageSettings settings, LayerBackend& backend);
  ~ImageService();
  ImageService(const ImageService&) = delete;
  ImageService& operator=(const ImageService&) = delete;

  // The image of `reference`, pulled first where it is missing. Concurrent calls for one image pull
  // once. A present image costs well under a millisecond. Throws ImageError.
  Image ensure(const std::string& reference, PullPolicy policy = PullPolicy::if_missing,
               const PullObserver& observer = {}, std::stop_token stop = {});

  // Loads a docker-archive or OCI layout tar (optionally compressed) from `input`, which may be a
  // pipe.
  std::vector<Image> load(const os::UniqueFd& input, const PullObserver& observer = {},
                          std::stop_token stop = {});

  [[nodiscard]] std::vector<Image> list();

  // Forgets a reference; layers go with prune(). False where it was not there.
  bool remove(const std::string& reference);

  // Removes images that nobody uses and layers that no image needs. `in_use`: layer names of
  // existing sessions, which stay whatever happens, as do those of images that are pinned; it is
  // called with the store locked against new users.
  struct PruneReport {
    std::vector<std::string> images;
    std::uint64_t layers = 0;
    std::uint64_t freed_bytes = 0;
  };
  // `above_watermark`: unused images, least recently used first, until the file system is used no
  // more than prune_above_used_fraction; whoever runs the service calls it now and then.
  enum class PruneScope { unreferenced_layers, unused_images, above_watermark };
  PruneReport prune(PruneScope scope, const std::function<std::vector<std::string>()>& in_use);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::images
