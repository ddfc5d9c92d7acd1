#include "proxy/http2_message.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

Http2Head head(std::vector<Field> more, std::string method = "GET") {
  Http2Head made;
  made.fields = {{":method", std::move(method)},
                 {":scheme", "https"},
                 {":authority", "a.test"},
                 {":path", "/x?y"}};
  for (Field& field : more) made.fields.push_back(std::move(field));
  return made;
}

std::string text_of(const std::vector<Field>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += name + "=" + value + ";";
  return text;
}

TEST(Http2Message, ReadsARequestAsOneOfHttp1) {
  const auto request = read_http2_request(head({{"accept", "*/*"}, {"te", "trailers"}}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->target, "/x?y");
  EXPECT_EQ(text_of(request->fields), "Host=a.test;accept=*/*;te=trailers;");
  EXPECT_TRUE(takes_trailers(*request));
}

TEST(Http2Message, TakesTheHostFieldWhereThereIsNoAuthority) {
  Http2Head without;
  without.fields = {{":method", "GET"}, {":scheme", "https"}, {":path", "/"}, {"host", "a.test"}};
  EXPECT_EQ(text_of(read_http2_request(without)->fields), "Host=a.test;");
}

TEST(Http2Message, RefusesWhatHttp1WouldReadOtherwise) {
  const std::vector<std::vector<Field>> bad{
      {{"connection", "close"}},
      {{"keep-alive", "1"}},
      {{"transfer-encoding", "chunked"}},
      {{"upgrade", "h2c"}},
      {{"proxy-connection", "keep-alive"}},
      {{"te", "gzip"}},
      {{"x", "a\r\nb: c"}},
      {{"x", std::string("a\0b", 3)}},
      {{"x y", "a"}},
      {{"X", "a"}},
      {{"content-length", "3"}, {"content-length", "3"}},
      {{"content-length", "+3"}},
      {{":path", "/again"}},
      {{":unknown", "a"}},
      {{"x", "a"}, {":status", "200"}},
      {{"host", "a.test"}, {"host", "a.test"}},
  };
  for (const auto& fields : bad) {
    const auto request = read_http2_request(head(fields));
    ASSERT_FALSE(request) << text_of(fields);
    EXPECT_EQ(request.error().status, 400) << text_of(fields);
  }
  EXPECT_EQ(read_http2_request(head({{"host", "b.test"}})).error().status, 421);
  for (const char* method : {"CONNECT", "connect", "G ET", ""})
    EXPECT_FALSE(read_http2_request(head({}, method))) << method;
  for (const char* path : {"", "x", "https://b.test/", "/a b", "/a#b", "/\r\nx"}) {
    Http2Head made = head({});
    made.fields[3].value = path;
    EXPECT_FALSE(read_http2_request(made)) << path;
  }
}

TEST(Http2Message, MakesARequestForAnOrigin) {
  const RequestHead request{"POST", "/x", 1, {{"Host", "a.test:8443"}, {"Accept", "*/*"}}};
  EXPECT_EQ(text_of(make_http2_request(request, Scheme::https)),
            ":method=POST;:scheme=https;:authority=a.test:8443;:path=/x;accept=*/*;");
}

TEST(Http2Message, ReadsAndMakesAnswers) {
  Http2Head answer;
  answer.fields = {{":status", "404"}, {"x", "y"}};
  const auto read = read_http2_response(answer);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status, 404);
  ResponseHead made{200, "OK", 1, {{"X-Y", "z"}, {"Transfer-Encoding", "chunked"}}};
  EXPECT_EQ(text_of(make_http2_response(made)), ":status=200;x-y=z;");
  for (const char* status : {"", "20", "2000", "abc", "099", "-10"}) {
    answer.fields[0].value = status;
    EXPECT_EQ(read_http2_response(answer).error().status, 502) << status;
  }
}

TEST(Http2Message, FramesForHttp1) {
  struct Case {
    std::string method;
    std::vector<Field> fields;
    BodyPresence body;
    BodyFraming::Kind kind;
    std::string text;
  };
  using Kind = BodyFraming::Kind;
  const Case cases[] = {
      {"GET", {}, BodyPresence::none, Kind::none, ""},
      {"POST", {}, BodyPresence::none, Kind::none, "Content-Length=0;"},
      {"POST", {}, BodyPresence::some, Kind::chunked, "Transfer-Encoding=chunked;"},
      {"GET", {}, BodyPresence::some, Kind::chunked, "Transfer-Encoding=chunked;"},
      {"PUT", {{"content-length", "3"}}, BodyPresence::some, Kind::length, "content-length=3;"},
      {"GET", {{"cookie", "a"}, {"cookie", "b"}}, BodyPresence::none, Kind::none, "cookie=a; b;"},
  };
  for (const auto& one : cases) {
    RequestHead request{one.method, "/", 1, one.fields};
    EXPECT_EQ(frame_for_http1(request, one.body).kind, one.kind);
    EXPECT_EQ(text_of(request.fields), one.text);
  }
}

TEST(Http2Message, DropsTrailersThatFrameOrAuthenticate) {
  EXPECT_EQ(text_of(make_http2_trailers({{"Grpc-Status", "0"},
                                         {"authorization", "x"},
                                         {"content-length", "1"},
                                         {"x-key", "mine"},
                                         {"bad name", "x"}},
                                        "X-Key")),
            "grpc-status=0;");
}

}  // namespace
}  // namespace daiv::proxy
