#include "wire/codec.hpp"

#include <gtest/gtest.h>

namespace daiv::wire {
namespace {

TEST(Codec, GivesBackWhatWasWritten) {
  Writer writer;
  writer.u8(7)
      .u32(0xdeadbeef)
      .u64(0x0123456789abcdef)
      .i64(-5)
      .boolean(true)
      .text(std::string_view("a\0b", 3))
      .texts({"x", ""});
  Reader reader(writer.bytes());
  EXPECT_EQ(reader.u8(), 7);
  EXPECT_EQ(reader.u32(), 0xdeadbeefU);
  EXPECT_EQ(reader.u64(), 0x0123456789abcdefU);
  EXPECT_EQ(reader.i64(), -5);
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ(reader.text(), std::string_view("a\0b", 3));
  EXPECT_EQ(reader.texts(2), (std::vector<std::string>{"x", ""}));
  EXPECT_NO_THROW(reader.finish());
}

TEST(Codec, EveryShorterMessageIsRefused) {
  const auto whole = Writer().u32(9).text("hello").texts({"a", "b"}).take();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Reader reader(std::string_view(whole).substr(0, size));
    EXPECT_THROW(
        {
          reader.u32();
          reader.text();
          reader.texts(2);
        },
        DecodeError)
        << size;
  }
}

TEST(Codec, BytesLeftOverAreRefused) {
  Reader reader("x");
  EXPECT_THROW(reader.finish(), DecodeError);
}

TEST(Codec, ACountBeyondTheLimitAllocatesNothing) {
  const auto bytes = Writer().u32(0xffffffff).take();
  Reader reader(bytes);
  EXPECT_THROW(reader.texts(1000), DecodeError);
}

TEST(Codec, ATextThatClaimsMoreThanThereIsIsRefused) {
  const auto bytes = Writer().u32(0xffffffff).take() + "abc";
  Reader reader(bytes);
  EXPECT_THROW(reader.text(), DecodeError);
}

}  // namespace
}  // namespace daiv::wire
