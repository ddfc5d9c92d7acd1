#include "proxy_rig.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>

namespace asio = boost::asio;

namespace daiv::proxy::testing {
namespace {

using namespace std::chrono_literals;

CertificateAuthority make_authority(const char* name) {
  const auto now = std::chrono::system_clock::now();
  auto loaded = CertificateAuthority::load(create_ca(name, now, std::chrono::days(3650)), now);
  return std::move(loaded.value());
}

// The file that EgressSettings names.
const std::string& origin_roots_file() {
  static const std::string path = [] {
    const std::string file =
        fmt::format("{}/origin-roots-{}.pem", ::testing::TempDir(), ::getpid());
    std::FILE* out = std::fopen(file.c_str(), "we");
    std::fputs(origin_authority().trusted_pem().c_str(), out);
    std::fclose(out);
    return file;
  }();
  return path;
}

}  // namespace

const CertificateAuthority& client_authority() {
  static const CertificateAuthority authority = make_authority("sandbox CA");
  return authority;
}

const CertificateAuthority& origin_authority() {
  static const CertificateAuthority authority = make_authority("origin CA");
  return authority;
}

HostName host(std::string_view name) { return HostName::parse(name).value(); }

Leaf origin_leaf(std::string_view name) {
  return origin_authority().issue(host(name), std::chrono::system_clock::now());
}

Policy make_policy(std::vector<RuleText> rules, Default fallback, Intercept intercept) {
  Policy policy;
  policy.fallback = fallback;
  policy.intercept = intercept;
  for (auto& rule : rules) {
    Rule made{HostGlob(rule.host), rule.methods, std::nullopt};
    if (!rule.inject.empty()) {
      made.inject = rule.inject;
      policy.secrets[rule.inject] = Secret{"Authorization", "Bearer " + rule.inject};
    }
    policy.rules.push_back(std::move(made));
  }
  return policy;
}

ProxyRig::ProxyRig(Policy policy, const Configure& configure) {
  // Of the test's own TLS: OpenSSL's socket BIO writes with write(2).
  std::signal(SIGPIPE, SIG_IGN);
  EgressSettings settings;
  settings.authority = std::make_shared<const CertificateAuthority>(client_authority());
  const auto loopback = asio::ip::make_address("127.0.0.1");
  for (const char* name :
       {"allowed.test", "cred.test", "limited.test", "denied.test", "other.test"})
    settings.extra_hosts.push_back(ExtraHost{host(name), loopback});
  settings.upstream_ca_file = origin_roots_file();
  settings.address_judge = [](const auto&, const Rule*) { return AddressVerdict::allowed; };
  if (configure) configure(settings);
  auto log = [this](const Decision& decision) {
    const std::scoped_lock lock(mutex_);
    decisions_.push_back(decision);
    changed_.notify_all();
  };
  proxy_ = std::make_unique<EgressProxy>(std::move(settings), log, context_.get_executor(), pool_);
  os::UniqueFd listener = listen_on_loopback();
  port_ = port_of(listener);
  std::vector<os::UniqueFd> listeners;
  listeners.push_back(std::move(listener));
  proxy_->add("s1", std::move(listeners), std::move(policy));
  thread_ = std::thread([this] {
    const auto guard = asio::make_work_guard(context_);
    context_.run();
  });
}

ProxyRig::~ProxyRig() {
  // Every connection must end by this: one that hangs hangs the test.
  auto stopped = asio::co_spawn(context_, proxy_->stop(), asio::use_future);
  EXPECT_EQ(stopped.wait_for(20s), std::future_status::ready);
  run([](EgressProxy& proxy) { EXPECT_EQ(proxy.counters().open_connections, 0U); });
  context_.stop();
  thread_.join();
}

Peer ProxyRig::connect() { return Peer(connect_to_loopback(port_)); }

std::string ProxyRig::open_tunnel(Peer& client, const std::string& target) {
  client.send(fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", target));
  return client.receive_until("\r\n\r\n");
}

Peer ProxyRig::connect_tls(const std::string& name, std::uint16_t port, const std::string& alpn) {
  Peer client = connect();
  EXPECT_EQ(open_tunnel(client, fmt::format("{}:{}", name, port)),
            "HTTP/1.1 200 Connection established\r\n\r\n");
  EXPECT_TRUE(client.connect_tls({.name = name,
                                  .verified = name,
                                  .roots_pem = client_authority().trusted_pem(),
                                  .alpn = alpn}));
  return client;
}

void ProxyRig::run(const std::function<void(EgressProxy&)>& work) {
  std::promise<void> done;
  asio::post(context_, [&] {
    work(*proxy_);
    done.set_value();
  });
  done.get_future().wait();
}

void ProxyRig::set_policy(Policy policy) {
  run([&](EgressProxy& proxy) { EXPECT_TRUE(proxy.update("s1", std::move(policy))); });
}

EgressCounters ProxyRig::counters() {
  EgressCounters counters;
  run([&](EgressProxy& proxy) { counters = proxy.counters(); });
  return counters;
}

std::vector<std::string> ProxyRig::decisions() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& decision : decisions_)
    lines.push_back(fmt::format("{} {} {} {}", decision.method, decision.host,
                                decision.allowed ? "allowed" : "denied", decision.status));
  return lines;
}

std::vector<Decision> ProxyRig::wait_for_decisions(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, 20s, [&] { return decisions_.size() >= count; });
  return decisions_;
}

}  // namespace daiv::proxy::testing
