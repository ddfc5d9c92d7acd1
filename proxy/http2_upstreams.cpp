#include "proxy/http2_upstreams.hpp"

#include <boost/asio/co_spawn.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

namespace asio = boost::asio;

namespace daiv::proxy {
namespace {

asio::awaitable<void> serve(std::shared_ptr<Http2Upstream> upstream) {
  std::string received = std::exchange(upstream->upstream.received, {});
  co_await upstream->link.run(std::move(received));
}

}  // namespace

Http2Upstream::Http2Upstream(ProxyCore& core, ProxiedSession& session, Upstream dialled)
    : upstream(std::move(dialled)), link(core, session, *upstream.channel, Http2Role::client) {}

Http2Upstreams::Http2Upstreams(std::shared_ptr<ProxyCore> core,
                               std::shared_ptr<ProxiedSession> session)
    : core_(std::move(core)), session_(std::move(session)), ended_(core_->executor) {}

std::optional<Http2Upstreams::Lease> Http2Upstreams::find(JudgedRequest& request,
                                                          Repeatable repeatable) {
  std::erase_if(shared_, [](const auto& known) { return !known->link.takes_streams(); });
  for (const auto& known : shared_)
    if (request.may_use(known->upstream)) return Lease{known, std::nullopt};
  if (repeatable == Repeatable::no) return std::nullopt;
  if (auto idle = request.take_idle(Protocols::http2_or_http1))
    return Lease{nullptr, std::move(idle)};
  return std::nullopt;
}

void Http2Upstreams::start(std::shared_ptr<Http2Upstream> upstream) {
  shared_.push_back(upstream);
  const auto entry = running_.insert(running_.end(), upstream);
  auto ended = [this, entry](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& failure) {
      spdlog::error("session={} egress origin: {}", session_->id, failure.what());
    }
    running_.erase(entry);
    ended_.wake();
  };
  asio::co_spawn(core_->executor, serve(upstream), std::move(ended));
}

asio::awaitable<std::expected<Http2Upstreams::Lease, Refusal>> Http2Upstreams::get(
    JudgedRequest& request, Repeatable repeatable) {
  for (;;) {
    if (!request.is_current()) {
      auto refusal = request.judge_now();
      if (refusal) co_return std::unexpected(*std::move(refusal));
    }
    if (auto found = find(request, repeatable)) co_return *std::move(found);
    // The requests that come in one go share the connection that the first of them makes.
    if (dialling_ && is_shared_) {
      Wakeup wakeup(core_->executor);
      const auto entry = waiting_.insert(waiting_.end(), &wakeup);
      co_await wakeup.wait(core_->settings.timeouts.dial);
      waiting_.erase(entry);
      continue;
    }
    if (session_->channels.size() >= 2 * core_->settings.max_connections)
      co_return std::unexpected(JudgedRequest::refuse_bad({503, "too many connections"}));
    auto dialled = co_await dial(request);
    if (!dialled) co_return std::unexpected(std::move(dialled.error()));
    const bool is_http2 = dialled->protocol == Protocol::http2;
    if (is_http2)
      start(std::make_shared<Http2Upstream>(*core_, *session_, std::move(*dialled)));
    else if (request.is_current())
      co_return Lease{nullptr, std::move(*dialled)};
  }
}

asio::awaitable<std::expected<Upstream, Refusal>> Http2Upstreams::dial(JudgedRequest& request) {
  struct Dialling {
    Http2Upstreams& its;
    explicit Dialling(Http2Upstreams& upstreams) : its(upstreams) { its.dialling_ = true; }
    ~Dialling() {
      its.dialling_ = false;
      for (Wakeup* other : its.waiting_) other->wake();
    }
    Dialling(const Dialling&) = delete;
    Dialling& operator=(const Dialling&) = delete;
  };
  const Dialling under_way(*this);
  auto dialled = co_await request.dial_upstream(Protocols::http2_or_http1);
  is_shared_ = dialled && dialled->protocol == Protocol::http2;
  co_return dialled;
}

asio::awaitable<void> Http2Upstreams::close() {
  for (const auto& known : running_) known->upstream.channel->cut();
  while (!running_.empty()) co_await ended_.wait(core_->settings.timeouts.tunnel);
}

}  // namespace daiv::proxy
