#include "images/digest.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

// FIPS 180-4's example.
constexpr std::string_view of_abc =
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Digest, IsThatOfTheBytes) { EXPECT_EQ(Digest::of("abc").string(), of_abc); }

TEST(Digest, ParsesWhatItPrints) {
  const auto digest = Digest::parse(of_abc);
  ASSERT_TRUE(digest);
  EXPECT_EQ(*digest, Digest::of("abc"));
  EXPECT_EQ(digest->hex(), of_abc.substr(7));
  EXPECT_TRUE(Digest::parse("sha512:" + std::string(128, '0')));
}

TEST(Digest, RefusesWhatIsNotExactlyOne) {
  const std::string hex(64, 'a');
  for (const std::string& text :
       {std::string(), std::string("sha256:"), "sha256:" + hex + "a", "sha256:" + hex.substr(1),
        "SHA256:" + hex, "sha256:" + std::string(64, 'A'), "sha256:" + std::string(63, 'a') + "/",
        "md5:" + std::string(32, 'a'), hex, "sha512:" + hex, " sha256:" + hex,
        "sha256:../" + hex}) {
    EXPECT_FALSE(Digest::parse(text)) << text;
  }
}

TEST(DigestStream, DoesNotCareForPiecesAndGoesOnAfterALook) {
  DigestStream stream;
  stream.update("a");
  EXPECT_EQ(stream.current(), Digest::of("a"));
  stream.update("");
  stream.update("bc");
  EXPECT_EQ(stream.current().string(), of_abc);
  EXPECT_EQ(stream.size(), 3U);
}

}  // namespace
}  // namespace daiv::images
