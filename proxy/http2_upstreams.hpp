#pragma once

#include <boost/asio/awaitable.hpp>

#include <expected>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/http2_link.hpp"
#include "proxy/judged_request.hpp"

namespace daiv::proxy {

// A connection to an origin that speaks HTTP/2.
struct Http2Upstream {
  Http2Upstream(ProxyCore& core, ProxiedSession& session, Upstream dialled);

  Upstream upstream;
  Http2Link link;
};

// What one client's connection keeps towards origins: connections of HTTP/2 that its requests share
// as long as they carry the same credential. Idle ones of HTTP/1.1 are the session's.
class Http2Upstreams {
public:
  Http2Upstreams(std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session);

  // One of both: shared by the requests on it, or this request's alone.
  struct Lease {
    std::shared_ptr<Http2Upstream> http2;
    std::optional<Upstream> http1;
  };
  // Whether the request can be sent a second time. An origin may close an idle connection of
  // HTTP/1.1 just as the request is sent on it (RFC 9112 section 9.3.1): one that can't be repeated
  // gets a connection of its own.
  enum class Repeatable { yes, no };
  // A connection that fits the request's verdict, and that of the policy as it is then.
  boost::asio::awaitable<std::expected<Lease, Refusal>> get(JudgedRequest& request,
                                                            Repeatable repeatable);

  // Ends them all; returns when they have ended.
  boost::asio::awaitable<void> close();

private:
  std::optional<Lease> find(JudgedRequest& request, Repeatable repeatable);
  boost::asio::awaitable<std::expected<Upstream, Refusal>> dial(JudgedRequest& request);
  void start(std::shared_ptr<Http2Upstream> upstream);

  std::shared_ptr<ProxyCore> core_;
  std::shared_ptr<ProxiedSession> session_;
  // Shared with the requests on them and with the task that moves their frames.
  std::vector<std::shared_ptr<Http2Upstream>> shared_;
  std::list<std::shared_ptr<Http2Upstream>> running_;  // those that take no more streams, too
  bool dialling_ = false;
  bool is_shared_ = true;  // what is dialled is likely to serve several requests
  std::list<Wakeup*> waiting_;
  Wakeup ended_;
};

}  // namespace daiv::proxy
