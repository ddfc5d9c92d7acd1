#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sessions/redis/reply.hpp"
#include "sessions/redis/url.hpp"

namespace daiv::sessions::redis {
namespace {

TEST(RedisUrl, SaysWhereAndWho) {
  const auto plain = parse_url("redis://cache");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->place(), "cache:6379/0");
  EXPECT_EQ(plain->tls, Tls::off);
  EXPECT_TRUE(plain->user.empty() && plain->password.empty());

  const auto full =
      parse_url("rediss://me:p%40ss%2F%25@[2001:db8::1]:7000/12?ssl_ca_certs=/etc/a%20b");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->place(), "[2001:db8::1]:7000/12");
  EXPECT_EQ(full->tls, Tls::on);
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->password, "p@ss/%");
  EXPECT_EQ(full->ca_file, "/etc/a b");

  EXPECT_EQ(parse_url("redis://:word@cache/")->password, "word");
  EXPECT_EQ(parse_url("redis://cache?db=4")->database, 4U);
  EXPECT_TRUE(parse_url("rediss://cache?ssl_cert_reqs=required&ssl_check_hostname=true"));
}

TEST(RedisUrl, RefusesTheRestWithoutSayingWhatItWas) {
  for (const char* bad : {"",
                          "cache",
                          "http://hush",
                          "redis://",
                          "redis://:hush@",
                          "redis://:hush%4@x",
                          "redis://:hush%zz@x",
                          "redis://hush@x",
                          "redis://:hush@x:0",
                          "redis://:hush@x:65536",
                          "redis://:hush@x:port",
                          "redis://:hush@x/name",
                          "redis://:hush@x/-1",
                          "redis://:hu#sh@x",
                          "redis://[::1:hush",
                          "redis://[::1]hush",
                          "redis://x?hush=1",
                          "redis://x?db=",
                          "redis://x?ssl_ca_certs=/hush",
                          "rediss://x?ssl_ca_certs=hush",
                          "rediss://x?ssl_cert_reqs=none",
                          "rediss://x?ssl_check_hostname=false"}) {
    const auto url = parse_url(bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(url.error().find("hush"), std::string::npos) << bad;
  }
}

TEST(RedisCommand, IsAnArrayOfBulkStrings) {
  EXPECT_EQ(encode_command({"SET", "k", "a\r\nb", ""}),
            "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
}

TEST(RedisReply, ComesByteByByte) {
  struct Case {
    const char* bytes;
    Reply expected;
  };
  using Kind = Reply::Kind;
  const std::vector<Case> cases{
      {"+OK\r\n", {Kind::text, "OK", 0}},
      {"$5\r\nab\r\nc\r\n", {Kind::text, "ab\r\nc", 0}},
      {"$-1\r\n", {Kind::nil, "", 0}},
      {":-12\r\n", {Kind::integer, "", -12}},
      {"-NOAUTH Authentication required.\r\n", {Kind::error, "NOAUTH", 0}}};
  ReplyReader reader;
  for (const auto& one : cases) {
    std::optional<Reply> reply;
    for (const char byte : std::string(one.bytes)) {
      EXPECT_FALSE(reply) << one.bytes;
      reader.feed({&byte, 1});
      reply = reader.next();
    }
    ASSERT_TRUE(reply) << one.bytes;
    EXPECT_EQ(reply->kind, one.expected.kind);
    EXPECT_EQ(reply->text, one.expected.text);
    EXPECT_EQ(reply->integer, one.expected.integer);
  }
}

TEST(RedisReply, OfAnErrorKeepsNothingThatWasSent) {
  for (const char* bytes : {"-ERR unknown command 'AUTH', with args beginning with: 'hush'\r\n",
                            "-hush\r\n", "-HUSH1\r\n"}) {
    ReplyReader reader;
    reader.feed(bytes);
    EXPECT_EQ(reader.next()->text, "ERR") << bytes;
  }
}

TEST(RedisReply, IsRefusedWhereItIsNoneOfOurs) {
  for (const std::string& bytes : {std::string("*2147483647\r\n"), std::string("HTTP/1.1 400\r\n"),
                                   std::string("+OK\r\n*2147483647\r\n"),
                                   std::string("$99999999\r\n") + std::string(70000, 'x'),
                                   std::string(":12x\r\n"), std::string("$-5\r\n")}) {
    ReplyReader reader;
    EXPECT_THROW(
        {
          reader.feed(bytes);
          while (reader.next()) {
          }
        },
        RedisError)
        << bytes.substr(0, 20);
  }
}

}  // namespace
}  // namespace daiv::sessions::redis
