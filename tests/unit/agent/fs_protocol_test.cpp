#include "agent/fs_protocol.hpp"

#include <gtest/gtest.h>

#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

std::vector<FsRequest> requests() {
  const std::string bytes("\0\xFF\n", 3);
  return {LsRequest{"/workspace"},
          ReadRequest{"/workspace/a", 7, UINT64_MAX},
          GrepRequest{"/workspace", "a|b", std::nullopt, {}},
          GrepRequest{"/workspace", bytes, "", {"x", "*.y"}},
          GlobRequest{"/workspace", "**", {"z"}},
          WriteRequest{"/workspace/b", bytes, 07777},
          EditRequest{"/workspace/c", "", bytes, Replace::all},
          DeleteRequest{"/workspace/d"}};
}

std::vector<FsReply> replies() {
  const FsError error{FsErrorCode::invalid_pattern, "no"};
  return {LsReply{{{"/workspace/a", true}, {"/workspace/\xFF", false}}, std::nullopt},
          ReadReply{std::string(max_read_bytes, 'x'), FsEncoding::base64, 3, 2, true, std::nullopt},
          GrepReply{{{"/workspace/a", 9, "text"}}, true, std::nullopt},
          GrepReply{{}, false, error},
          GlobReply{{{"/workspace/a", false}}, std::nullopt},
          WriteReply{error},
          EditReply{4, std::nullopt},
          DeleteReply{true, std::nullopt}};
}

TEST(FsProtocol, RequestsSurviveTheWire) {
  for (const FsRequest& request : requests()) {
    EXPECT_EQ(decode_fs_request(encode_fs_request(request)), request);
  }
}

TEST(FsProtocol, RepliesSurviveTheWire) {
  for (const FsReply& reply : replies()) EXPECT_EQ(decode_fs_reply(encode_fs_reply(reply)), reply);
}

TEST(FsProtocol, RefusesWhatIsCutOrTooLong) {
  for (const FsRequest& request : requests()) {
    const std::string whole = encode_fs_request(request);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(decode_fs_request(whole.substr(0, size)), wire::DecodeError);
    }
    EXPECT_THROW(decode_fs_request(whole + '\0'), wire::DecodeError);
  }
}

TEST(FsProtocol, RefusesWhatNoPeerMaySend) {
  EXPECT_THROW(decode_fs_request("\x08"), wire::DecodeError);
  EXPECT_THROW(decode_fs_request(encode_fs_request(ReadRequest{"/workspace/a", 0, 0})),
               wire::DecodeError);
  EXPECT_THROW(decode_fs_request(encode_fs_request(WriteRequest{"/workspace/a", "", 010000})),
               wire::DecodeError);
  GrepReply many;
  many.matches.resize(max_grep_matches + 1);
  EXPECT_THROW(decode_fs_reply(encode_fs_reply(many)), wire::DecodeError);
  ReadReply large;
  large.content.resize(max_read_bytes + 1);
  EXPECT_THROW(decode_fs_reply(encode_fs_reply(large)), wire::DecodeError);
  EXPECT_THROW(decode_fs_reply(encode_fs_reply(WriteReply{FsError{FsErrorCode{99}, "x"}})),
               wire::DecodeError);
  EXPECT_THROW(decode_fs_reply(encode_fs_reply(WriteReply{FsError{FsErrorCode::not_found, ""}})),
               wire::DecodeError);
}

TEST(FsProtocol, AnAnnouncedCountAllocatesNothing) {
  wire::Writer writer;
  writer.u8(static_cast<std::uint8_t>(FsOperation::ls)).u32(UINT32_MAX);
  EXPECT_THROW(decode_fs_reply(writer.bytes()), wire::DecodeError);
}

}  // namespace
}  // namespace daiv::agent
