#include "proxy/judged_request.hpp"

#include <fmt/format.h>

#include "wire/ascii.hpp"

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace daiv::proxy {

JudgedRequest::JudgedRequest(std::shared_ptr<ProxyCore> core,
                             std::shared_ptr<ProxiedSession> session, std::string method)
    : core_(std::move(core)), session_(std::move(session)) {
  decision.session = session_->id;
  decision.kind = Decision::Kind::request;
  decision.method = std::move(method);
}

void JudgedRequest::log() {
  decision.bytes_up = traffic.up;
  decision.bytes_down = traffic.down;
  decision.duration =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
  EgressCounters& counters = core_->counters;
  ++(decision.allowed ? counters.requests_allowed : counters.requests_denied);
  counters.bytes_up += traffic.up;
  counters.bytes_down += traffic.down;
  if (core_->log) core_->log(decision);
}

Refusal JudgedRequest::refuse(int status, std::string reason, std::string_view rule) const {
  const std::string where =
      destination_ ? fmt::format("{} {}:{}", method(), destination_->authority.host.in_url(),
                                 destination_->authority.port)
                   : method();
  Answer answer = make_refusal(status, where, reason, rule);
  return {std::move(answer), std::move(reason)};
}

Refusal JudgedRequest::refuse_bad(const HttpFault& fault) {
  return {make_bad_request(fault.status, fault.text), fault.text};
}

std::optional<Refusal> JudgedRequest::locate(const RequestHead& head,
                                             const std::optional<TunnelTarget>& tunnel) {
  auto found = tunnel ? find_destination(head, tunnel->scheme, tunnel->authority.port)
                      : find_destination(head, Scheme::http);
  if (!found) {
    if (found.error().status != 403) return refuse_bad(found.error());
    Refusal refusal = refuse(403, found.error().text);
    refusal.answer.persistence = Persistence::close;
    return refusal;
  }
  destination_ = std::move(*found);
  decision.host = destination_->authority.host.text();
  decision.port = destination_->authority.port;
  // The tunnel's host was judged and is what is connected to: any other name is a way round.
  if (tunnel &&
      (destination_->authority != tunnel->authority || destination_->scheme != tunnel->scheme)) {
    Refusal refusal =
        refuse(421, fmt::format("the connection was opened for {}:{}",
                                tunnel->authority.host.in_url(), tunnel->authority.port));
    refusal.answer.persistence = Persistence::close;
    return refusal;
  }
  return std::nullopt;
}

std::optional<Refusal> JudgedRequest::judge_now() {
  const auto& [host, port] = destination_->authority;
  policy_ = session_->policy;
  policy_number_ = session_->policy_number;
  verdict_ = judge_request(*policy_, host, port, method());
  decision.rule = verdict_.rule == nullptr ? std::string() : verdict_.rule->host.text();
  decision.allowed = false;
  decision.injected = verdict_.secret != nullptr;
  if (!verdict_.allowed)
    return refuse(403, describe(verdict_.reason, host, method()), suggest_rule(host, method()));
  const bool is_plain = destination_->scheme == Scheme::http;
  if (verdict_.secret != nullptr) {
    if (!is_sendable(*verdict_.secret))
      return refuse(403, "the rule's secret can be no header field");
    // It would be in the answer.
    if (wire::equal_ignoring_case(method(), "TRACE"))
      return refuse(403, "TRACE would show the credential");
    if (is_plain && core_->settings.plaintext_injection == PlaintextInjection::refused)
      return refuse(403, "a credential is not sent over plain http");
  }
  decision.allowed = true;
  decision.reason = describe(verdict_.reason, host, method());
  if (verdict_.secret != nullptr && is_plain)
    decision.reason += ", its credential goes over plain http";
  return std::nullopt;
}

std::string JudgedRequest::credential() const {
  return verdict_.secret == nullptr ? std::string() : verdict_.rule->inject.value_or("");
}

std::string JudgedRequest::secret_header() const {
  return verdict_.secret == nullptr ? std::string() : verdict_.secret->header;
}

bool JudgedRequest::may_use(const Upstream& upstream) const {
  return upstream.authority == destination_->authority && upstream.scheme == destination_->scheme &&
         upstream.credential == credential() && upstream.policy_number == session_->policy_number &&
         is_present(*core_, upstream.network.get()) &&
         judge(*core_, upstream.address, verdict_.rule, upstream.network.get()) ==
             AddressVerdict::allowed;
}

std::optional<Upstream> JudgedRequest::take_idle(Protocols protocols) {
  return session_->idle.take([this, protocols](const Upstream& known) {
    // An origin that was not asked may speak HTTP/2, which gRPC needs.
    const bool is_settled =
        protocols == Protocols::http1 || known.offered == protocols || known.scheme == Scheme::http;
    return is_settled && may_use(known);
  });
}

asio::awaitable<std::expected<Upstream, Refusal>> JudgedRequest::dial_upstream(
    Protocols protocols) {
  auto dialled = co_await dial(core_, session_, destination_->authority, destination_->scheme,
                               verdict_.rule, protocols);
  if (dialled) {
    dialled->credential = credential();
    dialled->offered = protocols;
    dialled->policy_number = policy_number_;
    co_return std::move(*dialled);
  }
  const DialFault fault = std::move(dialled.error());
  decision.allowed = fault.status != 403;
  if (fault.status == 403) co_return std::unexpected(refuse(403, fault.text));
  ++core_->counters.upstream_failures;
  co_return std::unexpected(Refusal{make_gateway_error(fault.status, fault.text), fault.text});
}

}  // namespace daiv::proxy
