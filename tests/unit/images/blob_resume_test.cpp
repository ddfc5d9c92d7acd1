#include "images/blob_resume.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

const std::string blob = "0123456789";

Descriptor descriptor() {
  return {.media_type = {}, .digest = Digest::of(blob), .size = blob.size(), .platform = {}};
}

HttpHead head(int status, std::vector<std::pair<std::string, std::string>> fields = {}) {
  return {.status = status, .fields = std::move(fields)};
}

HttpHead partial(const std::string& range, const std::string& etag = {}) {
  std::vector<std::pair<std::string, std::string>> fields = {{"content-range", range}};
  if (!etag.empty()) fields.emplace_back("etag", etag);
  return head(206, std::move(fields));
}

// What of `bytes` is new; "refused" where it gives up.
std::string accept(BlobResume& resume, std::string_view bytes) {
  const auto fresh = resume.accept(std::as_bytes(std::span(bytes)));
  if (!fresh) return "refused";
  return {reinterpret_cast<const char*>(fresh->data()), fresh->size()};
}

using Verdict = BlobResume::Verdict;

// A download that broke after "0123".
BlobResume broken(const std::string& etag = {}) {
  BlobResume resume(descriptor());
  EXPECT_EQ(resume.on_head(etag.empty() ? head(200) : head(200, {{"etag", etag}})), Verdict::take);
  EXPECT_EQ(accept(resume, "0123"), "0123");
  EXPECT_EQ(resume.next_offset(), 4U);
  return resume;
}

TEST(BlobResume, GoesOnWhereItBroke) {
  auto resume = broken();
  EXPECT_EQ(resume.on_head(partial("bytes 4-9/10")), Verdict::take);
  EXPECT_EQ(accept(resume, "456789"), "456789");
  EXPECT_TRUE(resume.is_whole());
  EXPECT_TRUE(resume.verify());
}

TEST(BlobResume, AnUnknownLengthAndTheSameEtagAreFine) {
  auto resume = broken("\"a\"");
  EXPECT_EQ(resume.on_head(partial("bytes 4-9/*", "\"a\"")), Verdict::take);
  EXPECT_EQ(broken("\"a\"").on_head(partial("bytes 4-9/10")), Verdict::take);
}

TEST(BlobResume, AnotherPartIsDiscardedAndAllAskedAnew) {
  for (const auto& answer :
       {partial("bytes 3-9/10"), partial("bytes 5-9/10"), partial("bytes 0-9/10"),
        partial("bytes 4-9/11"), partial("bytes */10"), partial("4-9/10"), partial("bytes 4-9"),
        partial("bytes x-9/10"), partial("bytes 4-9/10", "\"b\""), head(206)}) {
    auto resume = broken("\"a\"");
    EXPECT_EQ(resume.on_head(answer), Verdict::ask_anew);
    EXPECT_EQ(resume.next_offset(), 0U);
    EXPECT_EQ(resume.on_head(head(200)), Verdict::take);
    EXPECT_EQ(accept(resume, "012"), "");
    EXPECT_EQ(accept(resume, "345"), "45");
    EXPECT_EQ(accept(resume, "6789"), "6789");
    EXPECT_TRUE(resume.verify());
  }
}

TEST(BlobResume, AWholeBodyIsSkippedThreeTimesAtMost) {
  auto resume = broken();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(resume.on_head(head(200)), Verdict::take);
    EXPECT_EQ(accept(resume, "0123"), "");
  }
  EXPECT_EQ(resume.on_head(head(200)), Verdict::refuse);
  EXPECT_EQ(resume.fault(), BlobResume::Fault::not_resumable);
}

TEST(BlobResume, ARefusedRangeRestartsOnce) {
  auto resume = broken();
  EXPECT_EQ(resume.on_head(head(416)), Verdict::ask_anew);
  EXPECT_EQ(resume.next_offset(), 0U);
  EXPECT_EQ(resume.on_head(head(200)), Verdict::take);
  EXPECT_EQ(resume.next_offset(), 4U);
  EXPECT_EQ(resume.on_head(head(416)), Verdict::refuse);
}

TEST(BlobResume, ARefusedRangeThatWasNotAskedForIsTheEnd) {
  BlobResume resume(descriptor());
  EXPECT_EQ(resume.on_head(head(416)), Verdict::refuse);
}

TEST(BlobResume, OtherBytesAfterARestartAreSeenBeforeAnyOfThemIsGivenOut) {
  auto resume = broken();
  EXPECT_EQ(resume.on_head(head(200)), Verdict::take);
  EXPECT_EQ(accept(resume, "01x3456789"), "refused");
  EXPECT_EQ(resume.delivered(), 4U);
  EXPECT_EQ(resume.fault(), BlobResume::Fault::corrupt);
}

TEST(BlobResume, TooManyBytesAreRefusedAndNoneOfThemGivenOut) {
  auto resume = broken();
  EXPECT_EQ(resume.on_head(partial("bytes 4-9/10")), Verdict::take);
  EXPECT_EQ(accept(resume, "456789X"), "refused");
  EXPECT_EQ(resume.delivered(), 4U);
  BlobResume announced(descriptor());
  EXPECT_EQ(announced.on_head(head(200, {{"content-length", "11"}})), Verdict::refuse);
}

TEST(BlobResume, AnEmptyBlobIsWholeAtOnce) {
  const BlobResume resume({.media_type = {}, .digest = Digest::of(""), .size = 0, .platform = {}});
  EXPECT_TRUE(resume.is_whole());
  EXPECT_TRUE(resume.verify());
}

}  // namespace
}  // namespace daiv::images
