#include "images/blob_resume.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace daiv::images {
namespace {

constexpr int status_partial = 206;
constexpr int status_range_refused = 416;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct ContentRange {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> complete_length;
};

// "bytes 42-1233/1234" or ".../*" (RFC 9110 §14.4).
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view unit = "bytes ";
  if (!text.starts_with(unit)) return std::nullopt;
  text.remove_prefix(unit.size());
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto first = parse_number(text.substr(0, dash));
  const auto length = text.substr(slash + 1);
  if (!first) return std::nullopt;
  ContentRange range{.first = *first, .complete_length = parse_number(length)};
  if (!range.complete_length && length != "*") return std::nullopt;
  return range;
}

}  // namespace

BlobResume::BlobResume(const Descriptor& blob)
    : digest_(blob.digest), size_(blob.size), delivered_(blob.digest.algorithm()) {}

std::uint64_t BlobResume::next_offset() const noexcept { return ask_whole_ ? 0 : delivered(); }

BlobResume::Verdict BlobResume::refuse(Fault fault, std::string reason) {
  fault_ = fault;
  reason_ = std::move(reason);
  return Verdict::refuse;
}

BlobResume::Verdict BlobResume::restart() {
  ask_whole_ = true;
  if (++restarts_ > max_restarts)
    return refuse(Fault::not_resumable, "the registry can't resume a broken download");
  return Verdict::ask_anew;
}

// Whether a 206 goes on exactly where the last response broke, within the same representation.
bool BlobResume::continues(const HttpHead& head) const {
  const auto field = head.find("content-range");
  const auto range = field ? parse_content_range(*field) : std::nullopt;
  if (!range || range->first != delivered()) return false;
  if (range->complete_length && *range->complete_length != size_) return false;
  return etag_.empty() || head.find("etag").value_or(etag_) == etag_;
}

BlobResume::Verdict BlobResume::on_head(const HttpHead& head) {
  const bool asked_for_range = next_offset() > 0;
  repeated_.reset();
  if (head.status == status_range_refused) {
    if (!asked_for_range || ++range_refusals_ > 1)
      return refuse(Fault::not_resumable, "the registry refuses to send the rest of a download");
    return restart();
  }
  if (head.status == status_partial) {
    if (!asked_for_range || !continues(head)) return restart();
    return Verdict::take;
  }
  if (const auto length = head.find("content-length")) {
    const auto bytes = parse_number(*length);
    if (bytes && *bytes != size_) {
      return refuse(Fault::corrupt,
                    fmt::format("it has {} bytes where its manifest says {}", *bytes, size_));
    }
  }
  // The whole body, though a range was wanted: it is a restart, too.
  if (asked_for_range && restart() == Verdict::refuse) return Verdict::refuse;
  ask_whole_ = false;
  etag_ = head.find("etag").value_or("");
  if (delivered() > 0) repeated_.emplace(digest_.algorithm());
  return Verdict::take;
}

std::optional<std::span<const std::byte>> BlobResume::accept(std::span<const std::byte> bytes) {
  if (repeated_) {
    const auto known = std::min<std::uint64_t>(delivered() - repeated_->size(), bytes.size());
    repeated_->update(bytes.first(known));
    bytes = bytes.subspan(known);
    if (repeated_->size() < delivered()) return bytes;
    if (repeated_->current() != delivered_.current()) {
      refuse(Fault::corrupt, "its bytes changed during the download");
      return std::nullopt;
    }
    repeated_.reset();
  }
  if (bytes.size() > size_ - delivered()) {
    refuse(Fault::corrupt,
           fmt::format("it has more than the {} bytes that its manifest says", size_));
    return std::nullopt;
  }
  delivered_.update(bytes);
  return bytes;
}

}  // namespace daiv::images
