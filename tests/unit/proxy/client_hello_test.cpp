#include "proxy/client_hello.hpp"

#include <gtest/gtest.h>
#include <openssl/bio.h>

#include "proxy/detail/tls_handle.hpp"

namespace daiv::proxy {
namespace {

using Kind = HelloPeek::Kind;

// What OpenSSL sends for `name`.
std::string real_hello(const char* name) {
  const SslContextPtr context(::SSL_CTX_new(::TLS_client_method()));
  const SslPtr ssl(::SSL_new(context.get()));
  if (name != nullptr)
    ::SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
               const_cast<char*>(name));
  BIO* out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(ssl.get(), ::BIO_new(::BIO_s_mem()), out);
  ::SSL_connect(ssl.get());
  char* data = nullptr;
  const long size = ::BIO_get_mem_data(out, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string number(std::size_t value, int size) {
  std::string text;
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(value >> shift & 0xff);
  return text;
}

std::string vector(const std::string& data, int size) { return number(data.size(), size) + data; }

std::string record(const std::string& data) { return "\x16\x03\x01" + vector(data, 2); }

std::string server_name(const std::string& name) {
  return number(0, 2) + vector(vector(number(0, 1) + vector(name, 2), 2), 2);
}

std::string hello(const std::string& extensions) {
  const std::string body = "\x03\x03" + std::string(32, 'r') + vector("", 1) +
                           vector("\x13\x01", 2) + vector(std::string(1, '\0'), 1) +
                           vector(extensions, 2);
  return "\x01" + vector(body, 3);
}

TEST(ClientHello, IsReadAsOpensslSendsIt) {
  const auto peek = peek_client_hello(real_hello("host.test"));
  EXPECT_EQ(peek.kind, Kind::hello);
  EXPECT_EQ(peek.server_name, "host.test");
  EXPECT_EQ(peek_client_hello(real_hello(nullptr)).kind, Kind::hello);
  EXPECT_FALSE(peek_client_hello(real_hello(nullptr)).server_name);
}

TEST(ClientHello, IsIncompleteUntilItsLastByte) {
  const std::string whole = real_hello("host.test");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(peek_client_hello(std::string_view(whole).substr(0, size)).kind, Kind::incomplete);
  EXPECT_EQ(peek_client_hello(whole + "more").server_name, "host.test");
}

TEST(ClientHello, MayLieInSeveralRecords) {
  const std::string message = hello(server_name("host.test"));
  std::string split;
  for (const char byte : message) split += record(std::string(1, byte));
  EXPECT_EQ(peek_client_hello(split).server_name, "host.test");
}

TEST(ClientHello, IsMalformedWhereReadersCouldDiffer) {
  const std::string other_type =
      number(0, 2) + vector(vector(number(1, 1) + vector("host.test", 2), 2), 2);
  const std::string two_names =
      number(0, 2) +
      vector(vector(number(0, 1) + vector("a.test", 2) + number(0, 1) + vector("b.test", 2), 2), 2);
  const std::string table[] = {
      record(hello(server_name("a.test") + server_name("b.test"))),
      record(hello(two_names)),
      record(hello(other_type)),
      record(hello(server_name(""))),
      record(hello(std::string(3, '\0'))),
      record("\x02" + vector("x", 3)),
      record("\x01" + vector("\x03\x03", 3)),
      "\x16\x03\x01" + number(0, 2),
      "\x16\x03\x01" + number(16385, 2),
      record(hello("").substr(0, 10)) + "\x17\x03\x03" + vector("x", 2),
      record("\x01" + number(1 << 20, 3)),
  };
  for (const auto& bytes : table) EXPECT_EQ(peek_client_hello(bytes).kind, Kind::malformed);
}

TEST(ClientHello, IsNotTlsByItsFirstBytes) {
  for (const char* bytes : {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x80\x2e\x01", "\x16\x02"})
    EXPECT_EQ(peek_client_hello(bytes).kind, Kind::not_tls);
}

}  // namespace
}  // namespace daiv::proxy
