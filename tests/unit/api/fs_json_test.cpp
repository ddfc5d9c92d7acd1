#include "api/fs_json.hpp"

#include <gtest/gtest.h>

#include "api/json_decode.hpp"

namespace daiv::api {
namespace {

namespace fs = sessions::fs;

TEST(FsJson, ReadsRequestsWithTheirDefaults) {
  Json read = *decode_json(R"({"path":"/workspace/x","offset":"3","limit":true})");
  EXPECT_EQ(fs_request(RouteId::fs_read, read),
            fs::FsRequest(fs::ReadRequest{"/workspace/x", 3, 1}));
  Json bare = *decode_json(R"({"path":"/workspace/x"})");
  EXPECT_EQ(fs_request(RouteId::fs_read, bare),
            fs::FsRequest(fs::ReadRequest{"/workspace/x", 0, 2000}));
  Json far = *decode_json(R"({"path":"/workspace/x","offset":10000000000000000000})");
  EXPECT_EQ(fs_request(RouteId::fs_read, far),
            fs::FsRequest(fs::ReadRequest{"/workspace/x", INT64_MAX, 2000}));
  Json write = *decode_json(R"({"path":"/w","content":"aGk=","mode":493.0})");
  EXPECT_EQ(fs_request(RouteId::fs_write, write),
            fs::FsRequest(fs::WriteRequest{"/w", "hi", 0755}));
  Json edit = *decode_json(R"({"path":"/w","old":"a","new":"b","replace_all":"yes"})");
  EXPECT_EQ(fs_request(RouteId::fs_edit, edit),
            fs::FsRequest(fs::EditRequest{"/w", "a", "b", fs::Replace::all}));
  Json grep = *decode_json(R"({"path":"/w","pattern":"p","glob":null,"exclude":["a","b"]})");
  EXPECT_EQ(fs_request(RouteId::fs_grep, grep),
            fs::FsRequest(fs::GrepRequest{"/w", "p", std::nullopt, {"a", "b"}}));
}

TEST(FsJson, WritesRepliesInTheModelsOrder) {
  const fs::FsError error{fs::FsErrorCode::not_found, "No such file: \xc3\xbc"};
  EXPECT_EQ(
      fs_reply_json(fs::LsReply{{{"/workspace/\xff", true}}, std::nullopt}),
      "{\"entries\":[{\"path\":\"/workspace/\xef\xbf\xbd\",\"is_dir\":true}],\"error\":null}");
  EXPECT_EQ(
      fs_reply_json(fs::ReadReply{"a\tb", fs::FsEncoding::utf8, 1, 1, false, std::nullopt}),
      R"({"content":"a\tb","encoding":"utf-8","total_lines":1,"end_line":1,"truncated":false,"error":null})");
  EXPECT_EQ(
      fs_reply_json(fs::ReadReply{std::string("\0\xff", 2), fs::FsEncoding::base64, std::nullopt,
                                  std::nullopt, false, std::nullopt}),
      R"({"content":"AP8=","encoding":"base64","total_lines":null,"end_line":null,"truncated":false,"error":null})");
  EXPECT_EQ(
      fs_reply_json(failed_reply(fs::FsOperation::read, error)),
      R"({"content":null,"encoding":null,"total_lines":null,"end_line":null,"truncated":false,"error":)"
      "{\"code\":\"not_found\",\"message\":\"No such file: \xc3\xbc\"}}");
  EXPECT_EQ(fs_reply_json(fs::GrepReply{{{"/w/f", 7, "x"}}, true, std::nullopt}),
            R"({"matches":[{"path":"/w/f","line":7,"text":"x"}],"truncated":true,"error":null})");
  EXPECT_EQ(fs_reply_json(fs::GlobReply{}), R"({"matches":[],"error":null})");
  EXPECT_EQ(fs_reply_json(fs::WriteReply{}), R"({"error":null,"ok":true})");
  EXPECT_EQ(fs_reply_json(fs::EditReply{2, std::nullopt}), R"({"occurrences":2,"error":null})");
  EXPECT_EQ(fs_reply_json(fs::DeleteReply{true, std::nullopt}),
            R"({"removed":true,"error":null,"ok":true})");
  EXPECT_TRUE(
      fs_reply_json(failed_reply(fs::FsOperation::remove, error)).ends_with(R"(},"ok":false})"));
}

TEST(FsJson, JudgesPathsByOperation) {
  EXPECT_FALSE(check_request_path(fs::LsRequest{"/workspace"}));
  EXPECT_TRUE(check_request_path(fs::ReadRequest{"/workspace"}));
  EXPECT_TRUE(check_request_path(fs::LsRequest{"/workspace/../etc"}));
}

}  // namespace
}  // namespace daiv::api
