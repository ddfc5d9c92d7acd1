#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/egress_log.hpp"
#include "cli/line_budget.hpp"
#include "cli/settings.hpp"
#include "cli/upstream_network.hpp"
#include "netns/link_plan.hpp"
#include "proxy/egress_proxy.hpp"
#include "runtime/broker_client.hpp"
#include "sessions/egress_gate.hpp"

namespace daiv::cli {

// The egress proxy of the front: settings to proxy, sessions to proxy, CA to both. Used on the io
// thread. `broker` outlives it.
class Egress : public sessions::EgressGate {
public:
  // Throws std::runtime_error where the settings or the CA don't hold.
  Egress(const Settings& settings, const proxy::PemPair& authority, runtime::BrokerClient& broker,
         boost::asio::any_io_executor executor, boost::asio::thread_pool& pool);
  ~Egress() override;

  void open(const std::string& session, std::vector<os::UniqueFd> sockets,
            const sessions::EgressPolicy& policy) override;
  bool update(const std::string& session, const sessions::EgressPolicy& policy) override;
  void close(const std::string& session) override;
  [[nodiscard]] bool serves(const std::string& session) const override;
  [[nodiscard]] agent::Trust trust() const override { return trust_; }

  // What sessions are to be set up with.
  sessions::EgressSetup setup();
  // Looks now and then whether the CA's files have changed or the upstream network namespace is
  // gone. Until stop().
  boost::asio::awaitable<void> watch_host();
  // Takes a CA whose files have changed, which the above does every few seconds.
  void take_changed_authority();
  // Closes every connection.
  boost::asio::awaitable<void> stop();
  // In the text exposition format.
  [[nodiscard]] std::string expose() const;
  // Any thread may use it.
  EgressLog& log() noexcept { return log_; }

private:
  void record(const proxy::Decision& decision);

  const Settings& settings_;
  netns::Subnet subnet_;
  std::string public_roots_;
  std::shared_ptr<const proxy::CertificateAuthority> authority_;  // shared with the proxy
  agent::Trust trust_;
  std::string seen_;  // what the CA's files looked like when they were read
  boost::asio::steady_timer timer_;
  EgressLog log_;
  LineBudget allowed_lines_;
  LineBudget denied_lines_;
  UpstreamNetwork network_;
  std::shared_ptr<proxy::OutboundSockets> outbound_;  // shared with the proxy; null: its own
  proxy::EgressProxy proxy_;
};

// What keeps a daemon with egress from starting with these settings; one line each.
std::vector<std::string> find_egress_conflicts(const Settings& settings);

}  // namespace daiv::cli
