#include "images/auth_challenge.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

AuthChallenge bearer(std::string realm, std::string service, std::string scope) {
  return {.scheme = "bearer",
          .realm = std::move(realm),
          .service = std::move(service),
          .scope = std::move(scope)};
}

TEST(AuthChallenge, AllSpellingsMeanTheSame) {
  const auto expected = bearer("https://a.b/t", "s", "repository:x:pull,push");
  for (
      const std::string field : {
          R"(Bearer realm="https://a.b/t",service="s",scope="repository:x:pull,push")",
          R"(bearer realm="https://a.b/t", service="s", scope="repository:x:pull,push")",
          R"(BEARER   Realm = "https://a.b/t" ,, SERVICE="s",scope="repository:x:pull,push",)",
          R"(, Bearer ,realm="https://a.b/t" service=s,scope="repository:x:pull,push",error="invalid_token")",
          R"(Bearer realm="https:\/\/a.b/t",service="s",scope="repository:x:pull,push",realm="https://evil")",
      }) {
    EXPECT_EQ(parse_challenges({field}), std::vector{expected}) << field;
  }
}

TEST(AuthChallenge, MissingParametersAreEmpty) {
  EXPECT_EQ(parse_challenges({R"(Bearer realm="r")"}), std::vector{bearer("r", "", "")});
  EXPECT_EQ(parse_challenges({"Bearer"}), std::vector{bearer("", "", "")});
}

TEST(AuthChallenge, SeveralComeInOneFieldOrInTwo) {
  const std::vector<AuthChallenge> expected = {
      {.scheme = "basic", .realm = "b c", .service = {}, .scope = {}}, bearer("r", "s", "")};
  EXPECT_EQ(parse_challenges({R"(Basic realm="b c", Bearer realm="r",service="s")"}), expected);
  EXPECT_EQ(parse_challenges({R"(Basic realm="b c")", R"(Bearer realm="r",service="s")"}),
            expected);
}

TEST(AuthChallenge, Token68DoesNotHideTheNext) {
  const auto challenges = parse_challenges({R"(Negotiate YWJj==, Bearer realm="r")"});
  ASSERT_FALSE(challenges.empty());
  EXPECT_EQ(challenges.back(), bearer("r", "", ""));
}

TEST(AuthChallenge, JunkEndsAndIsBounded) {
  for (const std::string field : {"", ",,,", "\"", "=", "a=\"b", "\x80\xff",
                                  "Bearer realm=\"unterminated", "Bearer realm=\"x\\"}) {
    EXPECT_LE(parse_challenges({field}).size(), 1U) << field;
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "Basic, ";
  EXPECT_EQ(parse_challenges({many}).size(), max_challenges);
}

}  // namespace
}  // namespace daiv::images
