#include "images/registry_client.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <condition_variable>
#include <mutex>

#include "images/blob_fetch.hpp"
#include "images/http_transfer.hpp"
#include "images/registry_auth.hpp"
#include "images/registry_error.hpp"
#include "images/registry_request.hpp"

namespace daiv::images {
namespace {

constexpr int max_index_depth = 2;

const std::string& accept_header() {
  static const std::string header =
      fmt::format("Accept: {}, {}, {}, {}", media_type::oci_index, media_type::docker_index,
                  media_type::oci_manifest, media_type::docker_manifest);
  return header;
}

bool really_sleep(std::chrono::milliseconds duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

RegistrySettings with_defaults(RegistrySettings settings) {
  if (!settings.sleep) settings.sleep = really_sleep;
  if (!settings.now) settings.now = [] { return std::chrono::steady_clock::now(); };
  if (settings.platform == Platform{}) settings.platform = host_platform();
  return settings;
}

HttpSettings http_settings(const RegistrySettings& settings) {
  return {.https_proxy = settings.https_proxy,
          .http_proxy = settings.http_proxy,
          .no_proxy = settings.no_proxy,
          .certs_dirs = settings.certs_dirs,
          .user_agent = settings.user_agent,
          .no_progress_limit = settings.no_progress_limit,
          .connect_timeout = settings.connect_timeout};
}

// Keeps a blob in memory; its size is limited by its descriptor.
class StringSink final : public BlobSink {
public:
  void write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string text;
};

// Only what an image may have as configuration: charts, policies and signatures are kept in
// registries, too.
bool may_be_image_config(std::string_view type) {
  return type.empty() || type == media_type::oci_config || type == media_type::docker_config ||
         type == "application/octet-stream" || type == "application/json";
}

std::string list_platforms(const Index& index) {
  std::vector<std::string> names;
  constexpr std::size_t max_shown = 16;
  for (const auto& entry : index.manifests) {
    if (entry.platform && names.size() < max_shown)
      names.push_back(entry.platform->string().substr(0, 40));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

struct FetchedManifest {
  std::string bytes;
  std::string content_type;
  Digest digest;
};

}  // namespace

struct RegistryClient::Impl {
  explicit Impl(RegistrySettings given) : settings(with_defaults(std::move(given))) {}

  std::vector<PullSource> sources_of(const Reference& reference) const;
  template <typename Ask>
  auto ask_each(const Reference& reference, Ask ask) -> decltype(ask(PullSource{}));
  FetchedManifest fetch_manifest(const PullSource& source, const Reference& reference,
                                 const std::string& name, const std::optional<Digest>& expected,
                                 const std::stop_token& stop);
  Resolved resolve_from(const PullSource& source, const Reference& reference,
                        const std::stop_token& stop);
  void add_config(Resolved& image, const std::string& name, const std::stop_token& stop);
  std::optional<Digest> head_digest(const PullSource& source, const Reference& reference,
                                    const std::stop_token& stop);

  [[noreturn]] static void invalid(const std::string& image, std::string_view why) {
    throw ImageError(ImageFailure::invalid_image, fmt::format("{}: {}", image, why));
  }

  RegistrySettings settings;
  HttpTransfer http{http_settings(settings)};
  RegistryAuth auth{settings, http};
  RegistryRequester requester{settings, http, auth};
};

std::vector<PullSource> RegistryClient::Impl::sources_of(const Reference& reference) const {
  const auto conf = RegistriesConf::read(settings.registries_conf);
  if (!conf) throw ImageError(ImageFailure::internal, conf.error().text);
  auto sources = conf->sources(reference);
  if (!sources) {
    throw ImageError(ImageFailure::blocked,
                     fmt::format("{}: registry {} is blocked in {}", reference.string(),
                                 sources.error().prefix, settings.registries_conf));
  }
  if (sources->empty()) {
    throw ImageError(ImageFailure::internal,
                     fmt::format("{}: {} leaves no repository to pull from", reference.string(),
                                 settings.registries_conf));
  }
  return *std::move(sources);
}

// The answer of the first source that has one. The last source is the registry itself: its error is
// the one that counts.
template <typename Ask>
auto RegistryClient::Impl::ask_each(const Reference& reference, Ask ask)
    -> decltype(ask(PullSource{})) {
  const auto sources = sources_of(reference);
  std::string mirror_errors;
  for (std::size_t i = 0;; ++i) {
    try {
      auto answer = ask(sources[i]);
      if constexpr (requires { answer.sources; })
        answer.sources.assign(sources.begin() + static_cast<long>(i), sources.end());
      return answer;
    } catch (const ImageError& error) {
      if (error.failure() == ImageFailure::cancelled) {
        throw ImageError(ImageFailure::cancelled, fmt::format("{}: cancelled", reference.string()));
      }
      if (i + 1 == sources.size()) throw ImageError(error.failure(), error.what() + mirror_errors);
      mirror_errors += fmt::format("; mirror tried before: {}", error.what());
    }
  }
}

FetchedManifest RegistryClient::Impl::fetch_manifest(const PullSource& source,
                                                     const Reference& reference,
                                                     const std::string& name,
                                                     const std::optional<Digest>& expected,
                                                     const std::stop_token& stop) {
  const std::string image = reference.string();
  RegistryAuth::Attempts attempts;
  auto document = requester.fetch({.source = source,
                                   .method = HttpMethod::get,
                                   .path = "manifests/" + name,
                                   .headers = {accept_header()}},
                                  max_manifest_bytes, attempts, stop);
  if (document.too_large)
    invalid(image, fmt::format("its manifest has more than {} bytes", max_manifest_bytes));
  const auto& result = document.result;
  if (result.end != TransferEnd::complete || result.head.status != 200) {
    throw registry_error(source, result,
                         {.image = image,
                          .used_credentials = attempts.used_credentials,
                          .note = attempts.helper_note});
  }
  // By digest, the digest is what was asked for; by tag, what the registry says about its answer
  // must be true.
  auto claimed = expected;
  if (!claimed) {
    if (const auto field = result.head.find("docker-content-digest")) {
      if (const auto parsed = Digest::parse(*field)) claimed = *parsed;
    }
  }
  DigestStream stream(claimed ? claimed->algorithm() : DigestAlgorithm::sha256);
  stream.update(document.body);
  if (claimed && stream.current() != *claimed) {
    invalid(image,
            fmt::format("registry {} sent a manifest with another digest", source.authority));
  }
  return {.bytes = std::move(document.body),
          .content_type = result.head.find("content-type").value_or(""),
          .digest = stream.current()};
}

Resolved RegistryClient::Impl::resolve_from(const PullSource& source, const Reference& reference,
                                            const std::stop_token& stop) {
  const std::string image = reference.string();
  auto fetched = fetch_manifest(source, reference,
                                reference.digest ? reference.digest->string() : reference.tag,
                                reference.digest, stop);
  const Digest top = fetched.digest;
  for (int depth = 0;; ++depth) {
    auto parsed = parse_manifest(fetched.bytes, fetched.content_type);
    if (!parsed) invalid(image, parsed.error().text);
    if (auto* manifest = std::get_if<Manifest>(&*parsed)) {
      Resolved resolved{.reference = reference,
                        .digest = top,
                        .manifest_digest = fetched.digest,
                        .manifest = std::move(fetched.bytes),
                        .config_blob = manifest->config,
                        .config_bytes = {},
                        .config = {},
                        .layers = {},
                        .sources = {source}};
      add_config(resolved, image, stop);
      if (resolved.config.diff_ids.size() != manifest->layers.size()) {
        invalid(image, fmt::format("{} layers, but its configuration names {}",
                                   manifest->layers.size(), resolved.config.diff_ids.size()));
      }
      for (std::size_t i = 0; i < manifest->layers.size(); ++i) {
        resolved.layers.push_back(
            {.blob = std::move(manifest->layers[i]), .diff_id = resolved.config.diff_ids[i]});
      }
      return resolved;
    }
    const auto& index = std::get<Index>(*parsed);
    if (depth == max_index_depth) invalid(image, "indexes within indexes");
    const auto chosen = find_platform(index.manifests, settings.platform);
    if (!chosen) {
      throw ImageError(ImageFailure::wrong_platform,
                       fmt::format("{}: no image for {}; there is: {}", image,
                                   settings.platform.string(), list_platforms(index)));
    }
    fetched = fetch_manifest(source, reference, chosen->digest.string(), chosen->digest, stop);
    if (fetched.bytes.size() != chosen->size)
      invalid(image, "its manifest has another size than its index says");
  }
}

void RegistryClient::Impl::add_config(Resolved& image, const std::string& name,
                                      const std::stop_token& stop) {
  const auto& blob = image.config_blob;
  if (!may_be_image_config(blob.media_type)) {
    invalid(name, fmt::format("not a container image but an artifact of type \"{}\"",
                              blob.media_type.substr(0, 100)));
  }
  if (blob.size > max_config_bytes)
    invalid(name, fmt::format("its configuration has more than {} bytes", max_config_bytes));
  StringSink sink;
  images::fetch_blob(requester, settings, image.sources,
                     {.image = name, .blob = blob, .sink = sink, .progress = {}}, stop);
  auto config = parse_config(sink.text);
  if (!config) invalid(name, config.error().text);
  if (!runs_on(config->platform, settings.platform)) {
    throw ImageError(
        ImageFailure::wrong_platform,
        fmt::format("{}: it is for {}, this host runs {}", name,
                    config->platform.string().substr(0, 80), settings.platform.string()));
  }
  image.config_bytes = std::move(sink.text);
  image.config = *std::move(config);
}

std::optional<Digest> RegistryClient::Impl::head_digest(const PullSource& source,
                                                        const Reference& reference,
                                                        const std::stop_token& stop) {
  RegistryAuth::Attempts attempts;
  const auto document = requester.fetch({.source = source,
                                         .method = HttpMethod::head,
                                         .path = "manifests/" + reference.tag,
                                         .headers = {accept_header()}},
                                        0, attempts, stop);
  if (document.result.end != TransferEnd::complete) {
    throw registry_error(source, document.result,
                         {.image = reference.string(), .used_credentials = false, .note = {}});
  }
  if (document.result.head.status != 200) return std::nullopt;
  const auto field = document.result.head.find("docker-content-digest");
  const auto digest = field ? Digest::parse(*field) : std::unexpected(ParseError{});
  if (!digest) return std::nullopt;
  return *digest;
}

RegistrySettings registry_settings(const ImageSettings& settings, LayerBackend& backend) {
  RegistrySettings result;
  result.auth_file = settings.registry_auth_file;
  result.registries_conf = settings.registries_conf;
  result.platform = host_platform(settings.architecture);
  result.https_proxy = settings.https_proxy;
  result.http_proxy = settings.http_proxy;
  result.no_proxy = settings.no_proxy;
  result.no_progress_limit = settings.no_progress_limit;
  result.credential = [&backend](const std::string& helper, const std::string& server) {
    return backend.credential(helper, server);
  };
  return result;
}

RegistryClient::RegistryClient(RegistrySettings settings)
    : impl_(std::make_unique<Impl>(std::move(settings))) {}
RegistryClient::~RegistryClient() = default;

Resolved RegistryClient::resolve(const Reference& reference, const std::stop_token& stop) {
  return impl_->ask_each(reference, [&](const PullSource& source) {
    return impl_->resolve_from(source, reference, stop);
  });
}

Digest RegistryClient::resolve_digest(const Reference& reference, const std::stop_token& stop) {
  if (reference.digest) return *reference.digest;
  return impl_->ask_each(reference, [&](const PullSource& source) {
    // HEAD does not count against Docker Hub's limit of pulls; whoever can't answer it gets a GET.
    if (const auto digest = impl_->head_digest(source, reference, stop)) return *digest;
    return impl_->fetch_manifest(source, reference, reference.tag, std::nullopt, stop).digest;
  });
}

void RegistryClient::fetch_blob(const Resolved& image, const Descriptor& blob, BlobSink& sink,
                                const Progress& progress, const std::stop_token& stop) {
  const std::string name = image.reference.string();
  images::fetch_blob(impl_->requester, impl_->settings, image.sources,
                     {.image = name, .blob = blob, .sink = sink, .progress = progress}, stop);
}

}  // namespace daiv::images
