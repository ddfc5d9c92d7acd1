#include "agent/java_store.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

#include "agent/der.hpp"
#include "agent/java_jks.hpp"

// What a real JRE makes of the stores is tested in tests/integration/test_egress_java.py.
namespace daiv::agent {
namespace {

using namespace std::string_literals;

const std::string ours = "our certificate";
const std::string next = "the next one";

std::string jks_entry(const std::string& alias, const std::string& certificate) {
  return "\0\0\0\2\0"s + static_cast<char>(alias.size()) + alias + "12345678"s +
         "\0\5X.509\0\0\0"s + static_cast<char>(certificate.size()) + certificate;
}

std::string jks(const std::string& entries, char count) {
  const std::string body = "\xfe\xed\xfe\xed\0\0\0\2\0\0\0"s + count + entries;
  return body + jks_seal(body);
}

// A store of JDK 18: no password, one safe that holds whatever it is.
std::string pkcs12(const std::string& safes) {
  const std::string data = der_value(der_tag::object_id, "\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01");
  const std::string content = der_value(
      der_tag::explicit_0, der_value(der_tag::octets, der_value(der_tag::sequence, safes)));
  return der_value(der_tag::sequence, der_value(der_tag::integer, "\3") +
                                          der_value(der_tag::sequence, data + content));
}

const std::string encrypted_safe = der_value(
    der_tag::sequence, der_value(der_tag::object_id, "\x2a\x86\x48\x86\xf7\x0d\x01\x07\x06") +
                           der_value(der_tag::explicit_0, "sealed"));

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class JavaStore : public testing::TestWithParam<std::string> {};

TEST_P(JavaStore, TakesTheCertificateOnceAndKeepsTheRest) {
  const auto with = with_java_certificate(GetParam(), ours);
  ASSERT_TRUE(with);
  EXPECT_TRUE(has(*with, ours));
  EXPECT_EQ(with_java_certificate(*with, ours), *with);
}

TEST_P(JavaStore, ReplacesAnEarlierCertificate) {
  const auto with = with_java_certificate(GetParam(), ours);
  ASSERT_TRUE(with);
  const auto replaced = with_java_certificate(*with, next);
  ASSERT_TRUE(replaced);
  EXPECT_TRUE(has(*replaced, next));
  EXPECT_FALSE(has(*replaced, ours));
  EXPECT_EQ(replaced->size(), with->size() - ours.size() + next.size());
}

TEST_P(JavaStore, RefusesEveryTruncation) {
  const std::string& store = GetParam();
  for (std::size_t size = 0; size < store.size(); ++size)
    EXPECT_FALSE(with_java_certificate(store.substr(0, size), ours)) << size;
}

INSTANTIATE_TEST_SUITE_P(Formats, JavaStore,
                         testing::Values(jks("", 0), jks(jks_entry("root", "its bytes"), 1),
                                         pkcs12(""), pkcs12(encrypted_safe)));

TEST(JavaStore, KeepsOtherEntriesByteForByte) {
  const std::string entry = jks_entry("debian:root.pem", "its bytes");
  EXPECT_TRUE(has(with_java_certificate(jks(entry, 1), ours).value(), entry));
  EXPECT_TRUE(has(with_java_certificate(pkcs12(encrypted_safe), ours).value(), encrypted_safe));
}

TEST(JavaStore, LeavesAStoreOfAnotherPasswordAlone) {
  std::string store = jks(jks_entry("root", "its bytes"), 1);
  store.back() = static_cast<char>(store.back() ^ 1);
  EXPECT_EQ(with_java_certificate(store, ours).error(), StoreProblem::other_password);
}

TEST(JavaStore, LeavesWhatItDoesNotKnowAlone) {
  for (const std::string& store :
       {""s, "text"s, "\xce\xce\xce\xce\0\0\0\2"s, "\x30\x80\2\1\3\0\0"s})
    EXPECT_FALSE(with_java_certificate(store, ours)) << store.size();
}

TEST(JavaStore, DoesNotBelieveCountsAndLengths) {
  EXPECT_EQ(with_java_certificate(jks("", 5), ours).error(), StoreProblem::malformed);
  EXPECT_EQ(with_java_certificate(jks("more", 0), ours).error(), StoreProblem::malformed);
  // A private key whose chain has four thousand million certificates.
  const std::string chain = "\0\0\0\1\0\1a12345678\0\0\0\0\xff\xff\xff\xff"s;
  EXPECT_EQ(with_java_certificate(jks(chain, 1), ours).error(), StoreProblem::malformed);
  // A safe that says it is longer than the store.
  EXPECT_EQ(with_java_certificate(pkcs12("\x30\x84\x7f\xff\xff\xff"s), ours).error(),
            StoreProblem::malformed);
}

}  // namespace
}  // namespace daiv::agent
