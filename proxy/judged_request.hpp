#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "proxy/answer.hpp"
#include "proxy/dialer.hpp"
#include "proxy/proxied_session.hpp"
#include "proxy/relay.hpp"

namespace daiv::proxy {

// What an opened tunnel is for: every request inside must name it.
struct TunnelTarget {
  Authority authority;
  Scheme scheme = Scheme::http;  // as the client speaks in it
};

// What stands against sending a request.
struct Refusal {
  Answer answer;
  std::string reason;
};

// A request before the policy, whatever the version of HTTP it came in: what it is for, what is
// decided about it, and the operator's line. Borrows the core and the session, which outlive it.
class JudgedRequest {
public:
  JudgedRequest(std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session,
                std::string method);

  // What the request is for. Inside a tunnel that is the tunnel's host, and nothing else.
  std::optional<Refusal> locate(const RequestHead& head, const std::optional<TunnelTarget>& tunnel);

  // The verdict of the policy as it is now; after locate().
  std::optional<Refusal> judge_now();

  // Whether the policy that judged is still the session's.
  [[nodiscard]] bool is_current() const { return policy_ == session_->policy; }

  // A new connection to where the request goes, marked with its credential.
  boost::asio::awaitable<std::expected<Upstream, Refusal>> dial_upstream(Protocols protocols);

  // Whether a connection that is there already may carry it.
  [[nodiscard]] bool may_use(const Upstream& upstream) const;

  // Such a connection that the session keeps, made with an offer that `protocols` allows.
  std::optional<Upstream> take_idle(Protocols protocols);

  [[nodiscard]] Refusal refuse(int status, std::string reason, std::string_view rule = {}) const;
  [[nodiscard]] static Refusal refuse_bad(const HttpFault& fault);

  // Counts the request and tells the log, once, when it is over.
  void log();

  [[nodiscard]] const Destination& destination() const { return *destination_; }
  [[nodiscard]] const std::string& method() const noexcept { return decision.method; }
  // To be injected; null: nothing. Valid until the next judge_now().
  [[nodiscard]] const Secret* secret() const noexcept { return verdict_.secret; }
  // The name of the header that is injected; empty: none.
  [[nodiscard]] std::string secret_header() const;
  // The name of the rule's secret; empty: none.
  [[nodiscard]] std::string credential() const;

  Decision decision;
  Traffic traffic;

private:
  std::shared_ptr<ProxyCore> core_;
  std::shared_ptr<ProxiedSession> session_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::optional<Destination> destination_;
  std::uint64_t policy_number_ = 0;
  std::shared_ptr<const Policy> policy_;  // the one that judged: verdict_ borrows from it
  RequestVerdict verdict_;
};

}  // namespace daiv::proxy
