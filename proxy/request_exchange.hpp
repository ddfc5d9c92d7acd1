#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>
#include <string>

#include "proxy/judged_request.hpp"
#include "proxy/message_stream.hpp"

namespace daiv::proxy {

// One client's connection, as its exchanges see it.
struct ClientState {
  std::shared_ptr<ProxyCore> core;
  std::shared_ptr<ProxiedSession> session;
  Channel channel;
  std::string received;  // and not used yet: pipelined requests
  std::optional<TunnelTarget> tunnel;
  std::optional<Upstream> upstream;  // kept for the next request
};

// What follows an answer: another request, closing with care, or nothing.
enum class Next { request, linger, done };

// One request that is no CONNECT: judges it, sends it with what the policy adds, streams the answer
// back. Logs the decision.
class RequestExchange {
public:
  RequestExchange(ClientState& client, RequestHead head)
      : client_(client),
        core_(*client.core),
        session_(*client.session),
        head_(std::move(head)),
        judged_(client.core, client.session, head_.method) {}

  boost::asio::awaitable<Next> run();

private:
  std::optional<Refusal> read_request();

  boost::asio::awaitable<Next> serve();
  boost::asio::awaitable<std::optional<Refusal>> get_upstream();
  bool can_reuse();
  // Whether it may be sent a second time, where a kept connection turns out to be dead.
  [[nodiscard]] bool is_repeatable() const;

  boost::asio::awaitable<Next> forward();
  boost::asio::awaitable<void> send_all(std::string request);
  boost::asio::awaitable<void> upload(std::string ready);
  boost::asio::awaitable<void> download();
  boost::asio::awaitable<std::optional<ResponseHead>> read_response();
  boost::asio::awaitable<void> pass_response(ResponseHead response);
  boost::asio::awaitable<void> become_websocket(ResponseHead response);
  bool gather_response();
  void fail(int status, std::string reason);

  boost::asio::awaitable<Next> finish();
  boost::asio::awaitable<Next> answer(Refusal refusal);
  boost::asio::awaitable<bool> drain_request();

  ClientState& client_;
  ProxyCore& core_;
  ProxiedSession& session_;
  RequestHead head_;
  JudgedRequest judged_;

  BodyFraming framing_;
  std::optional<BodyReader> reader_;  // of the request's body
  std::string first_body_;            // what of it had arrived with the head, framed anew
  Upgrade upgrade_ = Upgrade::none;
  bool awaits_continue_ = false;  // the client may not send its body unless it is asked to

  BodyEnd upload_end_;
  std::chrono::milliseconds upload_limit_{0};
  std::optional<Refusal> failure_;  // of the origin
  bool answered_ = false;           // the head of an answer is on its way to the client
  bool complete_ = false;           // all of the answer is
  bool keeps_client_ = true;
  bool keeps_upstream_ = false;
  bool upgraded_ = false;
};

}  // namespace daiv::proxy
