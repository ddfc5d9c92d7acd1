#include "images/blob_fetch.hpp"

#include <fmt/core.h>

#include "images/blob_resume.hpp"
#include "images/registry_error.hpp"

namespace daiv::images {
namespace {

constexpr int status_range_refused = 416;
// Less than this between two breaks is no progress: else a registry that sends a byte at a time is
// never given up.
constexpr std::uint64_t worthwhile_bytes = std::uint64_t{64} << 10U;

// Feeds one response through the resume logic into the sink.
class BlobReceiver final : public HttpReceiver {
public:
  BlobReceiver(BlobResume& resume, const BlobOrder& order) : resume_(resume), order_(order) {}

  Flow on_head(const HttpHead& head) override {
    verdict_ = resume_.on_head(head);
    return verdict_ == BlobResume::Verdict::take ? Flow::go_on : Flow::stop;
  }
  Flow on_body(std::span<const std::byte> bytes) override {
    const auto fresh = resume_.accept(bytes);
    if (!fresh) return Flow::stop;
    if (fresh->empty()) return Flow::go_on;
    order_.sink.write(*fresh);
    if (order_.progress) order_.progress(resume_.delivered());
    return Flow::go_on;
  }
  [[nodiscard]] bool wants_anew() const { return verdict_ == BlobResume::Verdict::ask_anew; }

private:
  BlobResume& resume_;
  const BlobOrder& order_;
  BlobResume::Verdict verdict_ = BlobResume::Verdict::take;
};

ImageError fault_of(const BlobResume& resume, const PullSource& source, const BlobOrder& order) {
  const auto kind = resume.fault() == BlobResume::Fault::corrupt ? ImageFailure::invalid_image
                                                                 : ImageFailure::unreachable;
  return {kind, fmt::format("{}: blob {} of registry {}: {}", order.image,
                            order.blob.digest.string(), source.authority, resume.reason())};
}

// Whether the blob is whole; else why this source can't complete it.
std::optional<ImageError> fetch_from(RegistryRequester& requester, const RegistrySettings& settings,
                                     const PullSource& source, const BlobOrder& order,
                                     BlobResume& resume, const std::stop_token& stop) {
  int failures = 0;
  std::uint64_t last_good = resume.delivered();
  while (!resume.is_whole()) {
    RepositoryRequest request{.source = source,
                              .method = HttpMethod::get,
                              .path = "blobs/" + order.blob.digest.string(),
                              .headers = {}};
    if (const auto offset = resume.next_offset(); offset > 0) {
      request.headers.push_back(fmt::format("Range: bytes={}-", offset));
    }
    BlobReceiver receiver(resume, order);
    RegistryAuth::Attempts attempts;
    auto result = requester.perform(request, receiver, attempts, stop);
    if (resume.fault() != BlobResume::Fault::none) return fault_of(resume, source, order);
    if (resume.is_whole()) return std::nullopt;
    if (receiver.wants_anew()) continue;
    if (result.head.status == status_range_refused) {
      if (resume.on_head(result.head) == BlobResume::Verdict::refuse)
        return fault_of(resume, source, order);
      continue;
    }
    // A response that ended in good order but too early is a broken one.
    const bool is_short = result.end == TransferEnd::complete && result.head.status / 100 == 2;
    if (is_short) result.end = TransferEnd::cut;

    if (resume.delivered() - last_good >= worthwhile_bytes) failures = 0;
    last_good = resume.delivered();
    const auto decision = retry_after(result, ++failures);
    if (decision.verdict == RetryVerdict::give_up) {
      return registry_error(source, result,
                            {.image = order.image,
                             .used_credentials = attempts.used_credentials,
                             .note = attempts.helper_note});
    }
    wait_before_retry(settings, decision.delay, stop);
  }
  return std::nullopt;
}

bool another_source_may_help(const ImageError& error) {
  return error.failure() != ImageFailure::cancelled &&
         error.failure() != ImageFailure::invalid_image;
}

}  // namespace

void fetch_blob(RegistryRequester& requester, const RegistrySettings& settings,
                std::span<const PullSource> sources, const BlobOrder& order,
                const std::stop_token& stop) {
  BlobResume resume(order.blob);
  for (std::size_t i = 0; i < sources.size() && !resume.is_whole(); ++i) {
    const auto error = fetch_from(requester, settings, sources[i], order, resume, stop);
    if (error && (i + 1 == sources.size() || !another_source_may_help(*error))) throw *error;
  }
  if (!resume.is_whole() || !resume.verify()) {
    throw ImageError(ImageFailure::invalid_image,
                     fmt::format("{}: blob {} is corrupt: the bytes received have another digest",
                                 order.image, order.blob.digest.string()));
  }
}

}  // namespace daiv::images
