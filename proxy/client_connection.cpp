#include "proxy/client_connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "proxy/client_hello.hpp"
#include "proxy/http2_connection.hpp"
#include "proxy/side_by_side.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

constexpr char alert_access_denied = 49;
constexpr char alert_internal_error = 80;

constexpr std::string_view established = "HTTP/1.1 200 Connection established\r\n\r\n";

// On the pool: signing with an RSA key takes milliseconds.
asio::awaitable<std::optional<Leaf>> issue_leaf(
    std::shared_ptr<const CertificateAuthority> authority, HostName host) {
  co_return authority->issue(host, std::chrono::system_clock::now());
}

// What may be said for the SNI of a tunnel to `host`; empty: nothing against it.
std::string judge_hello(const HelloPeek& peek, const HostName& host) {
  if (peek.kind == HelloPeek::Kind::malformed) return "the ClientHello can't be read";
  if (!peek.server_name) return {};
  const auto name = HostName::parse(*peek.server_name);
  if (name && *name == host) return {};
  return fmt::format("the SNI {} is not the CONNECT host",
                     name ? name->text() : std::string("(no host name)"));
}

// The literal that the client has connected to, as a host.
std::optional<HostName> find_literal(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto endpoint = socket.local_endpoint(error);
  if (error) return std::nullopt;
  return HostName::parse(endpoint.address().to_string());
}

class ClientConnection {
public:
  ClientConnection(std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session,
                   asio::ip::tcp::socket socket, Arrival arrival)
      : core_(*core),
        session_(*session),
        arrival_(arrival),
        client_{core, session, Channel(session->channels, std::move(socket)), {}, {}, {}} {}

  asio::awaitable<void> run() {
    Next next = co_await arrive();
    for (bool first = true; next == Next::request && !client_.channel.is_cut(); first = false) {
      next = co_await serve_one(first);
      co_await client_.channel.give_way();  // requests that are here already need no wait
    }
    if (client_.upstream) session_.keep_idle(*std::exchange(client_.upstream, std::nullopt));
    if (next == Next::linger) co_await client_.channel.linger();
    if (next == Next::done) client_.channel.finish_sending();
  }

private:
  // In transparent mode a connection is for one host, as if it had been opened by a CONNECT: the
  // one whose name was looked up, or else, at a literal address, the one that the client asks for
  // there first. The literal itself is only judged and reached where the client names nothing.
  asio::awaitable<Next> arrive() {
    if (arrival_ == Arrival::proxy) co_return Next::request;
    const auto literal = find_literal(client_.channel.socket());
    if (!literal) co_return Next::done;  // the client is gone
    const auto known = find_looked_up();
    const Authority authority{known ? *known : *literal,
                              static_cast<std::uint16_t>(arrival_ == Arrival::http ? 80 : 443)};
    if (arrival_ == Arrival::http) {
      client_.tunnel = TunnelTarget{authority, Scheme::http};
      awaits_name_ = !known;
      co_return Next::request;
    }
    const Next next = co_await arrive_at_https(authority, known.has_value());
    co_return next;
  }

  // The name that the sandbox's resolver gave the address for.
  std::optional<HostName> find_looked_up() {
    boost::system::error_code error;
    const auto address = client_.channel.socket().local_endpoint(error).address();
    if (error || !address.is_v4()) return std::nullopt;
    return session_.names.name_of(address.to_v4().to_uint());
  }

  void take_name(const RequestHead& head) {
    if (!std::exchange(awaits_name_, false)) return;
    const auto named = find_destination(head, Scheme::http);
    if (named && named->scheme == Scheme::http &&
        named->authority.port == client_.tunnel->authority.port)
      client_.tunnel->authority = named->authority;
  }

  // A denied host is intercepted too: its client gets to read why, over TLS.
  asio::awaitable<Next> arrive_at_https(Authority authority, bool is_known) {
    begin_decision(Decision::Kind::connect, "CONNECT");
    decision_.host = authority.host.text();
    decision_.port = authority.port;
    const auto peek = co_await peek_hello(core_.settings.timeouts.head);
    if (!peek) co_return Next::done;
    if (peek->server_name && !is_known) {
      if (auto name = HostName::parse(*peek->server_name)) authority.host = *std::move(name);
      decision_.host = authority.host.text();
    }
    const std::string objection = judge_hello(*peek, authority.host);
    if (!objection.empty()) {
      ++core_.counters.tunnels_cut;
      const Next next = co_await refuse_tls(alert_access_denied, 403, objection);
      co_return next;
    }
    const std::shared_ptr<const Policy> policy = session_.policy;
    const ConnectVerdict verdict = judge_connect(*policy, authority.host, authority.port);
    decision_.rule = verdict.rule == nullptr ? std::string() : verdict.rule->host.text();
    if (verdict.allowed && !verdict.intercepted) {
      const Next next = co_await open_tunnel(authority, policy, verdict);
      co_return next;
    }
    const Next next = co_await intercept(authority);
    co_return next;
  }

  // Where no page can be shown: an alert (RFC 8446 §6) tells the client more than a reset.
  asio::awaitable<Next> refuse_tls(char alert, int status, std::string reason) {
    end_decision(status, std::move(reason));
    const std::string record{0x15, 0x03, 0x03, 0x00, 0x02, 0x02, alert};
    const bool sent = co_await client_.channel.write(record, core_.settings.timeouts.body);
    co_return sent ? Next::linger : Next::done;
  }

  asio::awaitable<Next> serve_one(bool first) {
    const EgressTimeouts& timeouts = core_.settings.timeouts;
    const HeadRead read =
        co_await read_head(client_.channel, client_.received, HeadScanner::Kind::request,
                           HeadLimits{first ? timeouts.head : timeouts.idle, timeouts.head});
    switch (read.end) {
      case HeadRead::End::head:
        break;
      case HeadRead::End::refused: {
        const Next next = co_await refuse(read.fault);
        co_return next;
      }
      case HeadRead::End::slow: {
        const HttpFault fault{408, "the request's head took too long"};
        const Next next = co_await refuse(fault);
        co_return next;
      }
      case HeadRead::End::closed:
      case HeadRead::End::quiet:
      case HeadRead::End::failed:
        co_return Next::done;
    }
    auto head = parse_request_head(std::string_view(client_.received).substr(0, read.size));
    if (!head) {
      const Next next = co_await refuse(head.error());
      co_return next;
    }
    client_.received.erase(0, read.size);
    if (client_.received.empty()) client_.received.shrink_to_fit();
    take_name(*head);
    if (head->method == "CONNECT") {
      const Next next = co_await connect(std::move(*head));
      co_return next;
    }
    RequestExchange exchange(client_, std::move(*head));
    const Next next = co_await exchange.run();
    co_return next;
  }

  // What is no request that could be judged.
  asio::awaitable<Next> refuse(HttpFault fault) {
    begin_decision(Decision::Kind::request, {});
    const std::string text = to_text(make_bad_request(fault.status, fault.text), AnswerBody::sent);
    end_decision(fault.status, fault.text);
    const bool sent = co_await client_.channel.write(text, core_.settings.timeouts.body);
    co_return sent ? Next::linger : Next::done;
  }

  void begin_decision(Decision::Kind kind, std::string method) {
    decision_ = Decision();
    decision_.session = session_.id;
    decision_.kind = kind;
    decision_.method = std::move(method);
    traffic_ = Traffic();
    started_ = steady_clock::now();
  }

  void end_decision(int status, std::string reason) {
    decision_.status = status;
    decision_.reason = std::move(reason);
    decision_.bytes_up = traffic_.up;
    decision_.bytes_down = traffic_.down;
    decision_.duration =
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
    core_.counters.bytes_up += traffic_.up;
    core_.counters.bytes_down += traffic_.down;
    if (!decision_.allowed) ++core_.counters.requests_denied;
    if (core_.log) core_.log(decision_);
  }

  asio::awaitable<Next> connect(RequestHead head) {
    begin_decision(Decision::Kind::connect, "CONNECT");
    const auto target = parse_connect_target(head.target);
    const auto framing = plan_request_body(head);
    const bool has_body = framing && framing->kind != BodyFraming::Kind::none &&
                          !(framing->kind == BodyFraming::Kind::length && framing->length == 0);
    HttpFault fault;
    if (client_.tunnel) fault = {400, "CONNECT inside a tunnel"};
    if (has_body) fault = {400, "CONNECT with a body"};
    if (!framing) fault = framing.error();
    if (!target) fault = target.error();
    if (!fault.text.empty()) {
      const Next next = co_await refuse(fault);
      co_return next;
    }
    const Authority& authority = *target;
    decision_.host = authority.host.text();
    decision_.port = authority.port;
    client_.upstream.reset();
    const std::shared_ptr<const Policy> policy = session_.policy;
    const ConnectVerdict verdict = judge_connect(*policy, authority.host, authority.port);
    decision_.rule = verdict.rule == nullptr ? std::string() : verdict.rule->host.text();
    if (!verdict.allowed) {
      const std::string reason = describe(verdict.reason, authority.host, {});
      const Next next = co_await answer_connect(
          make_refusal(403, where(authority), reason, suggest_rule(authority.host, {})), reason);
      co_return next;
    }
    if (verdict.intercepted) {
      const Next next = co_await intercept(authority);
      co_return next;
    }
    const Next next = co_await open_tunnel(authority, policy, verdict);
    co_return next;
  }

  static std::string where(const Authority& authority) {
    return fmt::format("{}:{}", authority.host.in_url(), authority.port);
  }

  // The connection stays: a client may try another host on it.
  asio::awaitable<Next> answer_connect(Answer answer, std::string reason) {
    end_decision(answer.status, std::move(reason));
    const std::string text = to_text(answer, AnswerBody::sent);
    const bool sent = co_await client_.channel.write(text, core_.settings.timeouts.body);
    co_return sent ? Next::request : Next::done;
  }

  asio::awaitable<bool> say_established() {
    if (arrival_ != Arrival::proxy) co_return true;  // nobody asked
    const std::string text(established);
    const bool sent = co_await client_.channel.write(text, core_.settings.timeouts.body);
    co_return sent;
  }

  // Reads until it is known what the client speaks in its tunnel.
  asio::awaitable<std::optional<HelloPeek>> peek_hello(milliseconds first_byte) {
    for (;;) {
      HelloPeek peek = peek_client_hello(client_.received);
      if (peek.kind != HelloPeek::Kind::incomplete) co_return peek;
      const milliseconds limit =
          client_.received.empty() ? first_byte : core_.settings.timeouts.head;
      const ReadEnd end = co_await client_.channel.read(client_.received, piece_bytes, limit);
      if (end != ReadEnd::data) co_return std::nullopt;
    }
  }

  // The client's TLS ends here; the requests inside are judged one by one as they come.
  asio::awaitable<Next> intercept(Authority authority) {
    const bool told = co_await say_established();
    if (!told) co_return Next::done;
    const auto peek = co_await peek_hello(core_.settings.timeouts.head);
    if (!peek) co_return Next::done;
    client_.tunnel = TunnelTarget{authority, Scheme::http};
    if (peek->kind == HelloPeek::Kind::not_tls) co_return Next::request;
    const std::string objection = judge_hello(*peek, authority.host);
    if (!objection.empty()) {
      ++core_.counters.tunnels_cut;
      end_decision(200, objection);
      client_.channel.cut();
      co_return Next::done;
    }
    const Leaf leaf = co_await find_leaf(authority.host);
    SslPtr ssl = session_.client_tls.make(leaf, authority.host);
    const std::string fault = co_await client_.channel.handshake(
        std::move(ssl), std::exchange(client_.received, {}), core_.settings.timeouts.head);
    ++core_.counters.handshakes;
    if (!fault.empty()) {
      // Where it is not the policy's doing: a client that does not trust the CA.
      decision_.allowed = judge_connect(*session_.policy, authority.host, authority.port).allowed;
      end_decision(200, fmt::format("TLS with the client: {}", fault));
      co_return Next::done;
    }
    client_.tunnel->scheme = Scheme::https;
    if (client_.channel.protocol() == Protocol::http1) co_return Next::request;
    co_await serve_http2(client_);
    co_return Next::linger;
  }

  asio::awaitable<Leaf> find_leaf(HostName host) {
    const auto now = std::chrono::system_clock::now();
    if (auto known = core_.leaves.find(host.text(), now)) co_return *std::move(known);
    const std::shared_ptr<const CertificateAuthority> authority = core_.settings.authority;
    auto issuing = issue_leaf(authority, host);
    const std::optional<Leaf> issued =
        co_await asio::co_spawn(core_.pool.get_executor(), std::move(issuing), asio::use_awaitable);
    Leaf leaf = issued.value();
    ++core_.counters.certificates;
    // The CA may have been replaced meanwhile.
    if (authority == core_.settings.authority) core_.leaves.put(host.text(), leaf);
    co_return leaf;
  }

  asio::awaitable<Next> open_tunnel(Authority authority, std::shared_ptr<const Policy> policy,
                                    ConnectVerdict verdict) {
    auto upstream = co_await dial(client_.core, client_.session, authority, Scheme::http,
                                  verdict.rule, Protocols::http1);
    // A policy that came meanwhile holds.
    const bool is_judged = policy == session_.policy || is_still_open(authority, upstream);
    if (!upstream || !is_judged) {
      const DialFault fault =
          upstream ? DialFault{403, "the policy has changed"} : std::move(upstream.error());
      if (fault.status != 403) ++core_.counters.upstream_failures;
      decision_.allowed = fault.status != 403;
      if (arrival_ == Arrival::https) {
        const char alert = fault.status == 403 ? alert_access_denied : alert_internal_error;
        const Next next = co_await refuse_tls(alert, fault.status, fault.text);
        co_return next;
      }
      Answer answer = fault.status == 403 ? make_refusal(403, where(authority), fault.text, {})
                                          : make_gateway_error(fault.status, fault.text);
      const Next next = co_await answer_connect(std::move(answer), fault.text);
      co_return next;
    }
    co_await run_tunnel(std::move(*upstream), verdict.reason);
    co_return Next::done;
  }

  bool is_still_open(const Authority& authority,
                     const std::expected<Upstream, DialFault>& upstream) const {
    const ConnectVerdict now = judge_connect(*session_.policy, authority.host, authority.port);
    return now.allowed && !now.intercepted && upstream &&
           judge(core_, upstream->address, now.rule, upstream->network.get()) ==
               AddressVerdict::allowed;
  }

  asio::awaitable<void> run_tunnel(Upstream upstream, Reason reason) {
    decision_.kind = Decision::Kind::tunnel;
    decision_.allowed = true;
    ++core_.counters.tunnels;
    tunnel_end_ = describe(reason, upstream.authority.host, {});
    const TunnelEntry entry(
        session_, OpenTunnel{upstream.authority, std::nullopt, upstream.address, upstream.network,
                             &client_.channel, upstream.channel.get()});
    Relay relay(client_.channel, *upstream.channel, traffic_, core_.settings.timeouts.tunnel);
    const bool told = co_await say_established();
    if (told) {
      // The origin may be the first to speak (SSH), so its side does not wait for ours.
      auto up = judge_and_pass(relay, upstream.authority.host);
      auto down = relay.down({});
      co_await side_by_side(std::move(up), std::move(down));
    }
    end_decision(200, tunnel_end_);
  }

  asio::awaitable<void> judge_and_pass(Relay& relay, HostName host) {
    const auto peek = co_await peek_hello(core_.settings.timeouts.tunnel);
    const std::string objection = peek ? judge_hello(*peek, host) : std::string();
    if (!objection.empty()) {
      decision_.allowed = false;
      tunnel_end_ = objection;
      ++core_.counters.tunnels_cut;
      relay.cut();
      co_return;
    }
    co_await relay.up(std::exchange(client_.received, {}));
  }

  ProxyCore& core_;
  ProxiedSession& session_;
  Arrival arrival_;
  bool awaits_name_ = false;  // the first request says what the connection is for
  ClientState client_;
  Decision decision_;
  std::string tunnel_end_;
  Traffic traffic_;
  steady_clock::time_point started_ = steady_clock::now();
};

}  // namespace

asio::awaitable<void> serve_client(std::shared_ptr<ProxyCore> core,
                                   std::shared_ptr<ProxiedSession> session,
                                   asio::ip::tcp::socket socket, Arrival arrival) {
  ClientConnection connection(std::move(core), std::move(session), std::move(socket), arrival);
  co_await connection.run();
}

}  // namespace daiv::proxy
