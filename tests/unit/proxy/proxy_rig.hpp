#pragma once

#include <boost/asio/io_context.hpp>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proxy/egress_proxy.hpp"
#include "test_origin.hpp"

namespace daiv::proxy::testing {

// Test CAs, made once: what sandboxes trust, and what signs origins.
const CertificateAuthority& client_authority();
const CertificateAuthority& origin_authority();
HostName host(std::string_view name);
Leaf origin_leaf(std::string_view name);

struct RuleText {
  std::string host;
  std::vector<std::string> methods{};
  std::string inject{};
};
Policy make_policy(std::vector<RuleText> rules, Default fallback = Default::deny,
                   Intercept intercept = Intercept::credentialed);

// An EgressProxy that runs on a thread of its own, with one session "s1". Every name of a rule that
// ends in .test leads to loopback, where the origins of tests are.
class ProxyRig {
public:
  using Configure = std::function<void(EgressSettings&)>;
  explicit ProxyRig(Policy policy, const Configure& configure = {});
  ~ProxyRig();
  ProxyRig(const ProxyRig&) = delete;
  ProxyRig& operator=(const ProxyRig&) = delete;

  // A new client of the session.
  Peer connect();
  // Sends CONNECT and returns the answer's head.
  static std::string open_tunnel(Peer& client, const std::string& target);
  // A client inside TLS with the host, through the proxy; fails the test where it can't be.
  Peer connect_tls(const std::string& host, std::uint16_t port,
                   const std::string& alpn = "http/1.1");

  // On the proxy's thread.
  void run(const std::function<void(EgressProxy&)>& work);
  void set_policy(Policy policy);
  EgressCounters counters();
  // The decisions so far, as "METHOD host allowed|denied status".
  std::vector<std::string> decisions();
  // Waits until there are `count`.
  std::vector<Decision> wait_for_decisions(std::size_t count);
  [[nodiscard]] std::uint16_t port() const { return port_; }

private:
  boost::asio::io_context context_{1};
  boost::asio::thread_pool pool_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Decision> decisions_;
  std::unique_ptr<EgressProxy> proxy_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace daiv::proxy::testing
