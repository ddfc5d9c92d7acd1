#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "proxy/http2_link.hpp"
#include "proxy/http2_upstreams.hpp"
#include "proxy/judged_request.hpp"
#include "proxy/origin_stream.hpp"

namespace daiv::proxy {

// One client's connection that speaks HTTP/2, as its exchanges see it.
struct Http2Client {
  std::shared_ptr<ProxyCore> core;
  std::shared_ptr<ProxiedSession> session;
  std::optional<TunnelTarget> tunnel;
  Http2Link link;
  Http2Upstreams upstreams;
};

// One stream: judges its request, sends it with what the policy adds, streams the answer back. Logs
// the decision. Borrows the client.
class Http2Exchange {
public:
  Http2Exchange(Http2Client& client, std::int32_t id)
      : client_(client), link_(client.link), id_(id), timeouts_(client.core->settings.timeouts) {}

  // Until the stream is over.
  boost::asio::awaitable<void> run();

private:
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<std::optional<Refusal>> open_origin();
  boost::asio::awaitable<void> upload();
  boost::asio::awaitable<void> pass_request_body();
  boost::asio::awaitable<void> download();
  boost::asio::awaitable<std::optional<OriginHead>> read_response();
  boost::asio::awaitable<std::expected<OriginHead, OriginFault>> next_head();
  boost::asio::awaitable<void> pass_response(OriginHead response);
  boost::asio::awaitable<void> answer(Refusal refusal);
  boost::asio::awaitable<void> wait_until_closed();
  void fail(const HttpFault& fault);
  [[nodiscard]] bool is_stalled(std::chrono::milliseconds limit) const;
  [[nodiscard]] bool is_closed() const;
  void moved() { moved_ = std::chrono::steady_clock::now(); }

  Http2Client& client_;
  Http2Link& link_;
  std::int32_t id_;
  const EgressTimeouts& timeouts_;
  RequestHead head_;
  BodyPresence body_ = BodyPresence::none;
  std::optional<JudgedRequest> judged_;
  std::unique_ptr<OriginStream> origin_;
  std::optional<Refusal> failure_;  // of the origin
  bool body_begun_ = false;         // the origin may have some of the request's body
  bool answered_ = false;           // the head of an answer is on its way
  bool complete_ = false;           // all of the answer is
  // Either way: a long call in which one side only listens is no stall.
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
};

}  // namespace daiv::proxy
