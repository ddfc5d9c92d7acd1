#include "images/registry_auth.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_image.hpp"
#include "fake_server.hpp"
#include "images/registry_client.hpp"
#include "os/io.hpp"

namespace daiv::images {
namespace {

using test::FakeRequest;
using test::FakeResponse;

// user:p@ss:w:rd
constexpr std::string_view basic = "Basic dXNlcjpwQHNzOnc6cmQ=";
constexpr std::string_view secret_password = "p@ss:w:rd";

class TempFile {
public:
  explicit TempFile(std::string_view text) {
    os::write_full(os::UniqueFd(::mkostemp(path_, O_CLOEXEC)), text);
  }
  ~TempFile() { ::unlink(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  [[nodiscard]] std::string path() const { return path_; }

private:
  char path_[32] = "/tmp/registry-auth-XXXXXX";
};

// A registry that wants a bearer token, with its token server in the same place; each test changes
// what it is about.
class AuthZoo : public testing::Test {
protected:
  FakeResponse answer(const FakeRequest& request) {
    if (request.path() == "/token") return token_server_(request);
    if (is_allowed_(request)) return image_.answer(request);
    FakeResponse refusal{.status = 401};
    for (const auto& challenge : challenges_)
      refusal.fields.emplace_back("WWW-Authenticate", challenge);
    return refusal;
  }

  [[nodiscard]] std::string bearer_challenge(const std::string& more = {}) const {
    return fmt::format(R"(Bearer realm="{}/token"{})", server_.url(), more);
  }
  static FakeResponse token(const std::string& json) { return {.body = json}; }

  void use_auth(const std::string& entry) {
    auth_ = std::make_unique<TempFile>(
        fmt::format(R"({{"auths":{{"{}":{}}}}})", server_.authority(), entry));
    settings_.auth_file = auth_->path();
  }
  void use_password() { use_auth(R"({"auth":"dXNlcjpwQHNzOnc6cmQ="})"); }

  Resolved pull() {
    if (challenges_.empty())
      challenges_ = {bearer_challenge(R"(,service="s",scope="repository:repo/image:pull")")};
    if (!client_) client_ = std::make_unique<RegistryClient>(settings_);
    auto resolved = client_->resolve(test::reference_at(server_));
    fetch_layer(resolved);
    return resolved;
  }
  void fetch_layer(const Resolved& resolved) {
    test::CollectingSink sink;
    client_->fetch_blob(resolved, resolved.layers.at(0).blob, sink);
    EXPECT_EQ(sink.text, layer_);
  }
  [[nodiscard]] std::size_t token_requests() const { return server_.requests("/token").size(); }

  const std::string layer_ = test::make_bytes(10'000);
  const test::FakeImage image_ = test::make_image({layer_});
  std::function<FakeResponse(const FakeRequest&)> token_server_ = [](const FakeRequest&) {
    return token(R"({"token":"good","expires_in":300})");
  };
  std::function<bool(const FakeRequest&)> is_allowed_ = [](const FakeRequest& request) {
    return request.field("authorization") == "Bearer good";
  };
  std::vector<std::string> challenges_;
  test::TestClock clock_;
  RegistrySettings settings_ = test::test_settings(clock_);
  std::unique_ptr<TempFile> auth_;
  std::unique_ptr<RegistryClient> client_;
  test::FakeServer server_{[this](const FakeRequest& request) { return answer(request); }};
};

TEST_F(AuthZoo, EachFormOfATokenAnswerServes) {
  for (const std::string json :
       {R"({"access_token":"good"})", R"({"token":"good"})",
        R"({"token":"good","access_token":"good"})", R"({"token":"good","expires_in":null,"x":1})",
        R"({"token":"good","expires_in":"300"})", R"({"token":"good","expires_in":-1})",
        R"({"token":"","access_token":"good"})"}) {
    token_server_ = [&](const FakeRequest&) { return token(json); };
    client_.reset();
    EXPECT_NO_THROW(pull()) << json;
  }
}

TEST_F(AuthZoo, OneTokenServesTheWholePull) {
  pull();
  EXPECT_EQ(token_requests(), 1U);
  const auto request = server_.requests("/token").at(0);
  EXPECT_EQ(request.field("authorization"), "");
  EXPECT_EQ(request.target, "/token?service=s&scope=repository%3Arepo%2Fimage%3Apull");
}

TEST_F(AuthZoo, AnOldTokenIsRenewedBeforeItIsUsed) {
  token_server_ = [](const FakeRequest&) { return token(R"({"token":"good","expires_in":61})"); };
  const auto resolved = pull();
  clock_.now += std::chrono::seconds(90);
  fetch_layer(resolved);
  EXPECT_EQ(token_requests(), 2U);
}

TEST_F(AuthZoo, ATokenThatTheRegistryForgotIsRenewedMidPull) {
  const auto resolved = pull();
  std::string wanted = "Bearer better";
  is_allowed_ = [&](const FakeRequest& request) {
    return request.field("authorization") == wanted;
  };
  token_server_ = [](const FakeRequest&) { return token(R"({"token":"better"})"); };
  fetch_layer(resolved);
  EXPECT_EQ(token_requests(), 2U);
}

TEST_F(AuthZoo, OddChallengesServe) {
  const std::string realm = fmt::format("{}/token", server_.url());
  const std::vector<std::vector<std::string>> zoo = {
      {fmt::format(R"(Bearer realm="{}")", realm)},
      {fmt::format(R"(Bearer realm="{}",service="s")", realm)},
      {fmt::format(R"(Bearer realm="{}",scope="repository:x:pull")", realm)},
      {fmt::format(R"(bearer ,realm="{}" ,, service="s",,)", realm)},
      {R"(Basic realm="x")", fmt::format(R"(Bearer realm="{}")", realm)},
      {fmt::format(R"(Basic realm="x", Bearer realm="{}")", realm)},
      {fmt::format(R"(Bearer realm="{}", Basic realm="x")", realm)},
      {"Negotiate", fmt::format(R"(Bearer realm="{}?a=b")", realm)},
  };
  for (const auto& challenges : zoo) {
    challenges_ = challenges;
    client_.reset();
    const auto before = token_requests();
    EXPECT_NO_THROW(pull()) << challenges.front();
    EXPECT_EQ(token_requests(), before + 1) << challenges.front();
  }
  const auto requests = server_.requests("/token");
  EXPECT_NE(requests.at(0).target.find("scope=repository%3Arepo%2Fimage%3Apull"),
            std::string::npos);
  EXPECT_EQ(requests.at(0).target.find("service="), std::string::npos);
}

TEST_F(AuthZoo, PasswordsGoToTheTokenServerAlone) {
  use_password();
  is_allowed_ = [](const FakeRequest& request) {
    return request.field("authorization") == "Bearer good";
  };
  token_server_ = [](const FakeRequest& request) {
    if (request.field("authorization") != basic) return FakeResponse{.status = 401};
    return token(R"({"token":"good"})");
  };
  pull();
  for (const auto& request : server_.requests("/v2/"))
    EXPECT_NE(request.field("authorization"), basic);
}

TEST_F(AuthZoo, ABasicRegistryGetsThePasswordAfterItsChallenge) {
  use_password();
  challenges_ = {R"(Basic realm="registry")"};
  is_allowed_ = [](const FakeRequest& request) { return request.field("authorization") == basic; };
  pull();
  const auto requests = server_.requests();
  EXPECT_EQ(requests.at(0).field("authorization"), "");
  EXPECT_EQ(requests.size(), 4U);  // manifest twice, configuration, layer
}

TEST_F(AuthZoo, AnIdentityTokenIsExchangedByPost) {
  use_auth(R"({"auth":"dTo=","identitytoken":"ident&ity"})");
  token_server_ = [](const FakeRequest& request) {
    const bool is_good =
        request.method == "POST" && request.body.contains("grant_type=refresh_token") &&
        request.body.contains("refresh_token=ident%26ity") && request.body.contains("service=s");
    return is_good ? token(R"({"access_token":"good"})") : FakeResponse{.status = 400};
  };
  pull();
  EXPECT_EQ(token_requests(), 1U);
}

TEST_F(AuthZoo, AServerWithoutPostIsAskedByGet) {
  use_auth(R"({"auth":"dTo=","identitytoken":"ident"})");
  token_server_ = [](const FakeRequest& request) {
    if (request.method == "POST") return FakeResponse{.status = 404};
    return request.field("authorization") == "Basic dTppZGVudA==" ? token(R"({"token":"good"})")
                                                                  : FakeResponse{.status = 401};
  };
  pull();
  EXPECT_EQ(token_requests(), 2U);
}

TEST_F(AuthZoo, AStaleBearerThatIsAnsweredWithBasicEndsWell) {
  // With a good token the first time; then the registry dislikes it and says Basic, though it wants
  // a new token.
  const auto resolved = pull();
  challenges_ = {R"(Basic realm="x")"};
  bool asked_as_stranger = false;
  is_allowed_ = [&](const FakeRequest& request) {
    if (request.field("authorization").empty()) {
      asked_as_stranger = true;
      challenges_ = {bearer_challenge()};
    }
    return request.field("authorization") == "Bearer newer";
  };
  token_server_ = [](const FakeRequest&) { return token(R"({"token":"newer"})"); };
  fetch_layer(resolved);
  EXPECT_TRUE(asked_as_stranger);
}

TEST_F(AuthZoo, AStaleBearerThatIsAnsweredWithBasicGetsThePassword) {
  use_password();
  token_server_ = [](const FakeRequest&) { return token(R"({"token":"good"})"); };
  const auto resolved = pull();
  challenges_ = {R"(Basic realm="x")"};
  is_allowed_ = [](const FakeRequest& request) { return request.field("authorization") == basic; };
  fetch_layer(resolved);
}

TEST_F(AuthZoo, AHelperIsAskedForTheRegistry) {
  auth_ = std::make_unique<TempFile>(
      fmt::format(R"({{"credHelpers":{{"{}":"fake"}}}})", server_.authority()));
  settings_.auth_file = auth_->path();
  std::string asked;
  settings_.credential = [&](const std::string& helper, const std::string& server) {
    asked = helper + " " + server;
    return std::string(R"({"Username":"user","Secret":"p@ss:w:rd"})");
  };
  token_server_ = [](const FakeRequest& request) {
    return request.field("authorization") == basic ? token(R"({"token":"good"})")
                                                   : FakeResponse{.status = 401};
  };
  pull();
  EXPECT_EQ(asked, "fake " + server_.authority());
}

TEST_F(AuthZoo, AHelperThatPrintsJunkOrFailsLeavesAnAnonymousPull) {
  auth_ = std::make_unique<TempFile>(R"({"credsStore":"fake"})");
  settings_.auth_file = auth_->path();
  for (const int mode : {0, 1, 2}) {
    settings_.credential = [mode](const std::string&, const std::string&) -> std::string {
      if (mode == 0) return std::string("\x7f\x45LF junk \0", 12);
      if (mode == 1) return {};
      throw ImageError(ImageFailure::denied, "helper said: sekrit");
    };
    client_.reset();
    EXPECT_NO_THROW(pull());
  }
  is_allowed_ = [](const FakeRequest&) { return false; };
  client_.reset();
  const auto error = test::error_of([&] { pull(); });
  EXPECT_NE(std::string(error.what()).find("credential helper \"fake\""), std::string::npos)
      << error.what();
  EXPECT_EQ(std::string(error.what()).find("sekrit"), std::string::npos) << error.what();
}

TEST_F(AuthZoo, ABusyTokenServerIsWaitedFor) {
  int busy = 2;
  token_server_ = [&](const FakeRequest&) {
    if (busy-- > 0) return FakeResponse{.status = 429, .fields = {{"Retry-After", "3"}}};
    return token(R"({"token":"good"})");
  };
  pull();
  EXPECT_EQ(clock_.sleeps,
            (std::vector{std::chrono::milliseconds(3000), std::chrono::milliseconds(3000)}));
}

TEST_F(AuthZoo, ARegistryThatIsNeverContentIsLeftAlone) {
  is_allowed_ = [](const FakeRequest&) { return false; };
  for (const bool with_password : {false, true}) {
    if (with_password) use_password();
    client_.reset();
    const auto before = server_.requests().size();
    const auto error = test::error_of([&] { pull(); });
    EXPECT_EQ(error.failure(), with_password ? ImageFailure::denied : ImageFailure::not_found)
        << error.what();
    EXPECT_LE(server_.requests().size() - before, 3U);  // request, token, request
    EXPECT_EQ(std::string(error.what()).find("good"), std::string::npos);
  }
}

TEST_F(AuthZoo, ChallengesThatChangeEachTimeEnd) {
  is_allowed_ = [this, n = 0](const FakeRequest&) mutable {
    challenges_ = {bearer_challenge(fmt::format(R"(,scope="repository:x{}:pull")", n++)),
                   R"(Basic realm="x")"};
    return false;
  };
  use_password();
  EXPECT_EQ(test::error_of([&] { pull(); }).failure(), ImageFailure::denied);
  EXPECT_LE(server_.requests().size(), 10U);
}

TEST_F(AuthZoo, WrongCredentialsAreSaidWithoutBeingShown) {
  use_password();
  token_server_ = [](const FakeRequest& request) {
    return FakeResponse{.status = 401,
                        .fields = {},
                        .body = request.field("authorization") + std::string(secret_password)};
  };
  const auto error = test::error_of([&] { pull(); });
  EXPECT_EQ(error.failure(), ImageFailure::denied);
  for (const auto part : {secret_password, basic.substr(6)}) {
    EXPECT_EQ(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(AuthZoo, TokensThatCanNotBeSentAreRefused) {
  for (const std::string json : {"", "junk", "[]", "{}", R"({"token":1})",
                                 R"({"token":"a\r\nEvil: x"})", R"({"token":"a b"})"}) {
    token_server_ = [&](const FakeRequest&) { return token(json); };
    client_.reset();
    EXPECT_EQ(test::error_of([&] { pull(); }).failure(), ImageFailure::unreachable) << json;
  }
}

// CVE-2020-15157: credentials that follow a redirect, or answer its target's challenge.
TEST_F(AuthZoo, ARedirectTargetSeesNoCredentialsAndGetsNoAnswer) {
  use_password();
  challenges_ = {R"(Basic realm="registry")"};
  is_allowed_ = [](const FakeRequest& request) { return request.field("authorization") == basic; };
  for (const int status : {301, 302, 303, 307, 308}) {
    const test::FakeServer storage(
        [&](const FakeRequest&) { return FakeResponse{.body = layer_}; });
    const test::FakeServer thief([&](const FakeRequest&) {
      return FakeResponse{.status = 401,
                          .fields = {{"WWW-Authenticate", R"(Basic realm="give me")"}}};
    });
    const test::FakeServer* target = &storage;
    const test::FakeServer registry([&](const FakeRequest& request) {
      const bool is_layer = request.target.ends_with(Digest::of(layer_).string());
      if (!is_layer || request.field("authorization") != basic) return answer(request);
      return FakeResponse{.status = status,
                          .fields = {{"Location", target->url() + "/signed?X=1"}}};
    });
    const TempFile auth(fmt::format(
        R"({{"auths":{{"{0}":{{"auth":"dXNlcjpwQHNzOnc6cmQ="}},"{1}":{{"auth":"dTpw"}}}}}})",
        registry.authority(), thief.authority()));
    settings_.auth_file = auth.path();
    RegistryClient client(settings_);
    const auto resolved = client.resolve(test::reference_at(registry));
    test::CollectingSink sink;
    client.fetch_blob(resolved, resolved.layers[0].blob, sink);
    EXPECT_EQ(sink.text, layer_);
    ASSERT_EQ(storage.requests().size(), 1U);
    EXPECT_EQ(storage.requests()[0].field("authorization"), "");

    target = &thief;
    const auto error =
        test::error_of([&] { client.fetch_blob(resolved, resolved.layers[0].blob, sink); });
    EXPECT_NE(std::string(error.what()), "NO ERROR WAS THROWN");
    ASSERT_EQ(thief.requests().size(), 1U);
    EXPECT_EQ(thief.requests()[0].field("authorization"), "");
  }
}

TEST(RegistryAuth, SecretsNeverGoOverPlainHttp) {
  const test::FakeServer token_server(
      [](const FakeRequest&) { return FakeResponse{.body = R"({"token":"t"})"}; });
  test::TestClock clock;
  auto settings = test::test_settings(clock);
  HttpTransfer http{HttpSettings{}};
  RegistryAuth auth(settings, http);
  const std::vector<std::string> fields = {
      fmt::format(R"(Bearer realm="{}/token")", token_server.url())};
  PullSource source{.authority = "registry.example.com",
                    .repository = "r",
                    .transport = Transport::verified_tls,
                    .name = "n"};
  RegistryAuth::Attempts attempts;
  EXPECT_EQ(test::error_of([&] {
              static_cast<void>(auth.answer(source, "https", fields, "", attempts, {}));
            }).failure(),
            ImageFailure::denied);
  // What was reached by https does not hand over to http, even where http would have been allowed.
  source.transport = Transport::insecure;
  attempts = {};
  EXPECT_EQ(test::error_of([&] {
              static_cast<void>(auth.answer(source, "https", fields, "", attempts, {}));
            }).failure(),
            ImageFailure::denied);
  EXPECT_TRUE(token_server.requests().empty());
  attempts = {};
  EXPECT_EQ(auth.answer(source, "http", fields, "", attempts, {}), "Bearer t");
}

TEST(TokenAnswer, LivesAreBounded) {
  EXPECT_EQ(parse_token_answer(R"({"token":"t"})")->lifetime, std::chrono::seconds(60));
  EXPECT_EQ(parse_token_answer(R"({"token":"t","expires_in":0})")->lifetime,
            std::chrono::seconds(60));
  EXPECT_EQ(parse_token_answer(R"({"token":"t","expires_in":18446744073709551615})")->lifetime,
            std::chrono::hours(24));
}

}  // namespace
}  // namespace daiv::images
