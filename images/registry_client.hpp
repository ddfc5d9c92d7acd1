#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "images/digest.hpp"
#include "images/image_service.hpp"
#include "images/manifest.hpp"
#include "images/reference.hpp"
#include "images/registries_conf.hpp"

namespace daiv::images {

// Where the bytes of a blob go. write() gets each byte exactly once and in order; that a download
// was cut and resumed, or begun anew, is not seen here. May block and may throw: that aborts the
// download, and fetch_blob() rethrows it.
class BlobSink {
public:
  virtual ~BlobSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
};

struct ResolvedLayer {
  Descriptor blob;  // digest and size as stored
  Digest diff_id;   // of the uncompressed tar
};

// An image as its registry describes it; manifest and configuration are verified against their
// digests.
struct Resolved {
  Reference reference;
  Digest digest;           // of what the reference names: an index, or the manifest itself
  Digest manifest_digest;  // of this platform's manifest
  std::string manifest;    // its bytes
  Descriptor config_blob;  // its digest is the image's id
  std::string config_bytes;
  ConfigFile config;
  std::vector<ResolvedLayer> layers;  // bottom first, as many as diffIDs
  std::vector<PullSource>
      sources;  // where blobs are fetched from: who answered first, then those after it
};

struct RegistrySettings {
  std::string auth_file;        // docker config.json or containers-auth.json; empty: none
  std::string registries_conf;  // empty or missing file: defaults
  Platform platform;
  std::string https_proxy;  // "http://proxy:3128"; empty: none. The environment is not read
  std::string http_proxy;
  std::string no_proxy;  // comma separated, as curl reads it
  std::vector<std::string> certs_dirs = {"/etc/containers/certs.d", "/etc/docker/certs.d"};
  std::string user_agent = "daiv-sandbox";
  std::chrono::milliseconds no_progress_limit{60'000};
  std::chrono::milliseconds connect_timeout{15'000};
  // What `docker-credential-<helper> get` prints for `server`. May throw; empty: helpers are not
  // available.
  std::function<std::string(const std::string& helper, const std::string& server)> credential;
  // Waits; false where `stop` was requested meanwhile. Empty: really waits. Tests give their own.
  std::function<bool(std::chrono::milliseconds, const std::stop_token& stop)> sleep;
  std::function<std::chrono::steady_clock::time_point()> now;  // empty: the steady clock
};

// The settings of a client as an ImageService has it; keeps a reference to `backend`.
RegistrySettings registry_settings(const ImageSettings& settings, LayerBackend& backend);

// Pulls from registries (OCI distribution spec 1.1, Docker registry HTTP API V2). Thread-safe:
// layers are fetched by several threads at once; every call blocks. Connections and tokens are kept
// between calls; files of credentials and mirrors are read anew by each resolve(). Everything
// throws ImageError with a text for the user that has no secret in it, `cancelled` after a stop;
// os::Error where this host itself fails.
class RegistryClient {
public:
  explicit RegistryClient(RegistrySettings settings);
  ~RegistryClient();
  RegistryClient(const RegistryClient&) = delete;
  RegistryClient& operator=(const RegistryClient&) = delete;

  Resolved resolve(const Reference& reference, const std::stop_token& stop = {});

  // The digest that `reference` names now, without fetching the configuration: to see whether a tag
  // moved.
  Digest resolve_digest(const Reference& reference, const std::stop_token& stop = {});

  // Streams `blob`, one of `image`'s, into `sink` and verifies size and digest; with a wrong digest
  // it throws invalid_image after the last byte was written, so what was made of the bytes must not
  // be trusted before this returns. `progress` gets the number of bytes delivered so far, from this
  // thread.
  using Progress = std::function<void(std::uint64_t delivered)>;
  void fetch_blob(const Resolved& image, const Descriptor& blob, BlobSink& sink,
                  const Progress& progress = {}, const std::stop_token& stop = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::images
