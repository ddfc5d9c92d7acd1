#include "images/http_transfer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "fake_server.hpp"
#include "images/registry_request.hpp"
#include "os/io.hpp"

namespace daiv::images {
namespace {

using test::FakeRequest;
using test::FakeResponse;

// This host by an address that does not count as loopback, at a port where nobody listens: refused
// without any packet leaving.
const std::string refusing_url = "http://0.0.0.0:1/";

class Body final : public HttpReceiver {
public:
  Flow on_head(const HttpHead&) override { return Flow::go_on; }
  Flow on_body(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Flow::go_on;
  }
  std::string text;
};

HttpResult get(HttpTransfer& http, const std::string& url,
               CertificateCheck check = CertificateCheck::verify) {
  Body body;
  return http.perform(
      {.method = HttpMethod::get, .url = url, .headers = {}, .form = {}, .certificates = check},
      body, {});
}

// A proxy that notes what it is asked for and refuses.
struct RefusingProxy {
  test::FakeServer server{[](const FakeRequest&) { return FakeResponse{.status = 502}; }};
};

TEST(HttpTransfer, UsesTheProxyOfTheScheme) {
  const RefusingProxy https;
  const RefusingProxy http_only;
  HttpTransfer http({.https_proxy = https.server.url(),
                     .http_proxy = http_only.server.url(),
                     .no_proxy = "b.example.com"});
  EXPECT_NE(get(http, "https://a.example.com/x").end, TransferEnd::complete);
  ASSERT_EQ(https.server.requests().size(), 1U);
  EXPECT_EQ(https.server.requests()[0].method, "CONNECT");
  EXPECT_EQ(https.server.requests()[0].target, "a.example.com:443");
  EXPECT_EQ(get(http, "http://a.example.com/x").head.status, 502);
  EXPECT_EQ(http_only.server.requests().size(), 1U);
}

TEST(HttpTransfer, GoesPastTheProxyForLoopbackAndNoProxy) {
  const RefusingProxy proxy;
  const test::FakeServer server([](const FakeRequest&) { return FakeResponse{}; });
  HttpTransfer http(
      {.https_proxy = proxy.server.url(), .http_proxy = proxy.server.url(), .no_proxy = "0.0.0.0"});
  EXPECT_EQ(get(http, server.url()).head.status, 200);
  EXPECT_EQ(get(http, refusing_url).end, TransferEnd::not_connected);
  EXPECT_TRUE(proxy.server.requests().empty());
}

TEST(HttpTransfer, DoesNotReadTheEnvironment) {
  const RefusingProxy proxy;
  ::setenv("http_proxy", proxy.server.url().c_str(), 1);
  HttpTransfer http(HttpSettings{});
  EXPECT_EQ(get(http, refusing_url).end, TransferEnd::not_connected);
  ::unsetenv("http_proxy");
  EXPECT_TRUE(proxy.server.requests().empty());
}

TEST(HttpTransfer, FollowsNoRedirectAndKeepsConnections) {
  const test::FakeServer server([](const FakeRequest&) {
    return FakeResponse{.status = 302, .fields = {{"Location", "/x"}}};
  });
  HttpTransfer http(HttpSettings{});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get(http, server.url()).head.status, 302);
  EXPECT_EQ(server.requests().size(), 5U);
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpTransfer, EndlessHeaderFieldsAreMalformed) {
  const test::FakeServer server([](const FakeRequest&) {
    FakeResponse response;
    for (int i = 0; i < 400; ++i) response.fields.emplace_back("X-Filler", std::string(1000, 'x'));
    return response;
  });
  HttpTransfer http(HttpSettings{});
  EXPECT_EQ(get(http, server.url()).end, TransferEnd::malformed);
}

TEST(HttpTransfer, ABrokenBodyIsCut) {
  const test::FakeServer server(
      [](const FakeRequest&) { return FakeResponse{.body = "0123456789", .cut_after = 4}; });
  HttpTransfer http(HttpSettings{});
  const auto result = get(http, server.url());
  EXPECT_EQ(result.end, TransferEnd::cut);
  EXPECT_EQ(result.head.status, 200);
}

TEST(HttpTransfer, APlainServerHasNoTls) {
  const test::FakeServer server([](const FakeRequest&) { return FakeResponse{}; });
  HttpTransfer http(HttpSettings{});
  EXPECT_EQ(get(http, "https://" + server.authority(), CertificateCheck::skip).end,
            TransferEnd::no_tls);
}

TEST(Urls, AreResolvedWithoutSecretsAndOnlyForTheWeb) {
  EXPECT_EQ(resolve_url("https://a.b/v2/x", "/y?z=1"), "https://a.b/y?z=1");
  EXPECT_EQ(resolve_url("https://a.b/v2/x", "https://u:p@c.d/y#f"), "https://c.d/y");
  EXPECT_EQ(resolve_url("https://a.b/v2/x", "//c.d/y"), "https://c.d/y");
  EXPECT_EQ(resolve_url("https://a.b/x", "ftp://a.b/y"), std::nullopt);
  EXPECT_EQ(resolve_url("https://a.b/x", "file:///etc/passwd"), std::nullopt);
  EXPECT_EQ(origin_of("https://A.b:443/x"), origin_of("https://a.b"));
  EXPECT_NE(origin_of("https://a.b:444/x"), origin_of("https://a.b"));
  EXPECT_NE(origin_of("http://a.b"), origin_of("https://a.b"));
  EXPECT_EQ(url_encode("a/b:c d&~"), "a%2Fb%3Ac%20d%26~");
}

template <auto free>
struct Free {
  template <typename Type>
  void operator()(Type* object) const noexcept {
    free(object);
  }
};

// A TLS server on loopback with a certificate of its own making that says 127.0.0.1.
class TlsServer {
public:
  // Says `answer` to every request.
  explicit TlsServer(std::string answer = plain_answer)
      : answer_(std::move(answer)),
        key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")),
        certificate_(X509_new()),
        context_(SSL_CTX_new(TLS_server_method())) {
    auto* certificate = certificate_.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key_.get());
    auto* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    for (const auto& [nid, value] :
         {std::pair{NID_subject_alt_name, "IP:127.0.0.1"}, {NID_basic_constraints, "CA:TRUE"}}) {
      const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
          X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
      X509_add_ext(certificate, extension.get(), -1);
    }
    X509_sign(certificate, key_.get(), EVP_sha256());
    SSL_CTX_use_certificate(context_.get(), certificate);
    SSL_CTX_use_PrivateKey(context_.get(), key_.get());

    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), generic, length), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), generic, &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~TlsServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  [[nodiscard]] std::string authority() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::string certificate_pem() const {
    const std::unique_ptr<BIO, Free<BIO_free_all>> memory(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(memory.get(), certificate_.get());
    std::string pem(4096, '\0');
    pem.resize(
        static_cast<std::size_t>(BIO_read(memory.get(), pem.data(), static_cast<int>(pem.size()))));
    return pem;
  }

private:
  void serve() {
    for (;;) {
      const os::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) return;
      const std::unique_ptr<SSL, Free<SSL_free>> tls(SSL_new(context_.get()));
      SSL_set_fd(tls.get(), socket.get());
      if (SSL_accept(tls.get()) != 1) continue;
      char request[4096];
      static_cast<void>(SSL_read(tls.get(), request, sizeof request));
      static_cast<void>(SSL_write(tls.get(), answer_.data(), static_cast<int>(answer_.size())));
      SSL_shutdown(tls.get());
    }
  }

  static constexpr const char* plain_answer =
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

  std::string answer_;
  std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key_;
  std::unique_ptr<X509, Free<X509_free>> certificate_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
  os::UniqueFd listener_;
  unsigned short port_ = 0;
  std::thread thread_;
};

TEST(HttpTransfer, VerifiesCertificates) {
  const TlsServer server;
  HttpTransfer http(HttpSettings{});
  EXPECT_EQ(get(http, "https://" + server.authority()).end, TransferEnd::certificate_refused);
  EXPECT_EQ(get(http, "https://" + server.authority(), CertificateCheck::skip).head.status, 200);
}

TEST(HttpTransfer, TrustsTheAuthoritiesOfARegistrysDirectoryThereAlone) {
  const TlsServer server;
  const TlsServer other;
  char root[] = "/tmp/certs-XXXXXX";
  ASSERT_NE(::mkdtemp(root), nullptr);
  const std::string directory = std::string(root) + "/" + server.authority();
  std::filesystem::create_directory(directory);
  os::write_full(os::open_file(directory + "/ca.crt", O_WRONLY | O_CREAT, 0600),
                 server.certificate_pem());
  HttpTransfer http({.certs_dirs = {"/nonexistent", root}});
  EXPECT_EQ(get(http, "https://" + server.authority()).head.status, 200);
  EXPECT_EQ(get(http, "https://" + other.authority()).end, TransferEnd::certificate_refused);
  std::filesystem::remove_all(root);
}

// Whoever can answer for the other host would choose the bytes, and see what is sent there.
TEST(HttpTransfer, HttpsDoesNotBecomeHttpWhereCertificatesAreChecked) {
  test::FakeServer plain([](const FakeRequest&) { return FakeResponse{.body = "ok"}; });
  const TlsServer server(
      "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " + plain.url() +
      "/blob\r\n\r\n");
  char root[] = "/tmp/certs-XXXXXX";
  ASSERT_NE(::mkdtemp(root), nullptr);
  const std::string directory = std::string(root) + "/" + server.authority();
  std::filesystem::create_directory(directory);
  os::write_full(os::open_file(directory + "/ca.crt", O_WRONLY | O_CREAT, 0600),
                 server.certificate_pem());
  HttpTransfer http({.certs_dirs = {root}});
  const auto end_of = [&](CertificateCheck check) {
    HttpRequest request;
    request.url = "https://" + server.authority();
    request.certificates = check;
    Body body;
    return perform_following(http, request, body, {}).result.end;
  };
  EXPECT_EQ(end_of(CertificateCheck::verify), TransferEnd::malformed);
  EXPECT_TRUE(plain.requests().empty());
  EXPECT_EQ(end_of(CertificateCheck::skip), TransferEnd::complete);
  EXPECT_EQ(plain.requests().size(), 1U);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace daiv::images
