#include "sentry/dsn.hpp"

#include <gtest/gtest.h>

namespace daiv::sentry {
namespace {

struct Good {
  const char* text;
  const char* url;
  const char* key;
};

class GoodDsn : public testing::TestWithParam<Good> {};

TEST_P(GoodDsn, GivesTheEnvelopeUrlAndTheKey) {
  const auto dsn = parse_dsn(GetParam().text);
  ASSERT_TRUE(dsn) << dsn.error();
  EXPECT_EQ(dsn->envelope_url, GetParam().url);
  EXPECT_EQ(dsn->public_key, GetParam().key);
}

INSTANTIATE_TEST_SUITE_P(Table, GoodDsn,
                         testing::Values(Good{"https://abc123@o1.example.org/42",
                                              "https://o1.example.org/api/42/envelope/", "abc123"},
                                         Good{"http://k:old-secret@127.0.0.1:9000/7",
                                              "http://127.0.0.1:9000/api/7/envelope/", "k"},
                                         Good{"https://k@h/deep/path/9",
                                              "https://h/deep/path/api/9/envelope/", "k"}));

class BadDsn : public testing::TestWithParam<const char*> {};

TEST_P(BadDsn, IsRefusedWithoutRepeatingIt) {
  const auto dsn = parse_dsn(GetParam());
  ASSERT_FALSE(dsn);
  EXPECT_EQ(dsn.error().find("topsecret"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Table, BadDsn,
                         testing::Values("", "topsecret", "ftp://topsecret@h/1", "https://h/1",
                                         "https://@h/1", "https://topsecret@/1",
                                         "https://topsecret@h", "https://topsecret@h/",
                                         "https://top secret@h/1", "https://topsecret@h/a b"));

}  // namespace
}  // namespace daiv::sentry
