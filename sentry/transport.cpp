#include "sentry/transport.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace daiv::sentry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int poll_ms = 1000;

struct CurlDeleter {
  void operator()(CURL* handle) const noexcept { ::curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const noexcept { ::curl_slist_free_all(list); }
};

std::size_t discard(char*, std::size_t size, std::size_t count, void*) { return size * count; }

// What became of one request.
struct Delivery {
  bool delivered = false;
  std::chrono::seconds pause{0};
};

// The multi interface is there for curl_multi_wakeup(3): a request under way can be given up at
// once.
class Poster {
public:
  Poster(const Dsn& dsn, std::chrono::milliseconds timeout)
      : handles_(::curl_multi_init(), ::curl_multi_cleanup),
        handle_(::curl_easy_init()),
        headers_(::curl_slist_append(nullptr, "Content-Type: application/x-sentry-envelope")) {
    const auto auth = fmt::format(
        "X-Sentry-Auth: Sentry sentry_version=7, sentry_client=daiv-sandbox/1, sentry_key={}",
        dsn.public_key);
    ::curl_slist_append(headers_.get(), auth.c_str());
    ::curl_slist_append(headers_.get(), "Expect:");
    set(CURLOPT_URL, dsn.envelope_url.c_str());
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_POST, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_WRITEFUNCTION, discard);
  }

  // Gives up when `stopping` is set and wake() called.
  Delivery post(const std::string& envelope, const std::atomic<bool>& stopping) {
    set(CURLOPT_POSTFIELDS, envelope.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(envelope.size()));
    if (perform(stopping) != CURLE_OK) return {};
    long status = 0;
    curl_off_t retry_after = 0;
    ::curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    ::curl_easy_getinfo(handle_.get(), CURLINFO_RETRY_AFTER, &retry_after);
    // Sentry's SDK rules: a 429 without a time means a minute.
    if (status == 429) return {false, std::chrono::seconds(retry_after > 0 ? retry_after : 60)};
    return {status >= 200 && status < 300, std::chrono::seconds(retry_after)};
  }

  // Thread-safe.
  void wake() { ::curl_multi_wakeup(handles_.get()); }

private:
  CURLcode perform(const std::atomic<bool>& stopping) {
    ::curl_multi_add_handle(handles_.get(), handle_.get());
    int running = 1;
    while (running > 0 && !stopping) {
      if (::curl_multi_perform(handles_.get(), &running) != CURLM_OK) break;
      if (running > 0) ::curl_multi_poll(handles_.get(), nullptr, 0, poll_ms, nullptr);
    }
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int left = 0;
    while (const CURLMsg* message = ::curl_multi_info_read(handles_.get(), &left))
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    ::curl_multi_remove_handle(handles_.get(), handle_.get());
    return result;
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    ::curl_easy_setopt(handle_.get(), option, value);
  }

  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> handles_;
  std::unique_ptr<CURL, CurlDeleter> handle_;
  std::unique_ptr<curl_slist, CurlDeleter> headers_;
};

}  // namespace

struct Transport::Impl {
  Impl(const Dsn& dsn_to_use, TransportLimits limits_to_use)
      : limits(limits_to_use),
        poster(dsn_to_use, limits.request_timeout),
        thread([this] { run(); }) {}

  ~Impl() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    poster.wake();
    thread.join();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) return;
      const auto envelope = std::move(queue.front());
      queue.pop_front();
      sending = true;
      lock.unlock();
      const auto delivery = poster.post(envelope, stopping);
      lock.lock();
      settle(delivery, envelope.size());
    }
  }

  // With the lock held.
  void settle(const Delivery& delivery, std::size_t bytes) {
    ++(delivery.delivered ? sent : dropped);
    queued_bytes -= bytes;
    if (delivery.pause.count() > 0)
      paused_until = Clock::now() + std::min(delivery.pause, limits.max_pause);
    sending = false;
    if (queue.empty()) idle.notify_all();
  }

  TransportLimits limits;
  Poster poster;
  std::mutex mutex;
  std::condition_variable changed;
  std::condition_variable idle;
  std::deque<std::string> queue;
  std::size_t queued_bytes = 0;
  bool sending = false;
  std::atomic<bool> stopping = false;
  Clock::time_point paused_until;
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> dropped{0};
  std::thread thread;  // last: it uses all of the above
};

Transport::Transport(const Dsn& dsn, TransportLimits limits)
    : impl_(std::make_unique<Impl>(dsn, limits)) {}
Transport::~Transport() = default;

void Transport::offer(std::string envelope) {
  {
    const std::scoped_lock lock(impl_->mutex);
    if (Clock::now() < impl_->paused_until ||
        impl_->queued_bytes + envelope.size() > impl_->limits.max_queued_bytes) {
      ++impl_->dropped;
      return;
    }
    impl_->queued_bytes += envelope.size();
    impl_->queue.push_back(std::move(envelope));
  }
  impl_->changed.notify_one();
}

void Transport::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait_for(lock, limit, [this] { return impl_->queue.empty() && !impl_->sending; });
}

std::uint64_t Transport::sent() const noexcept { return impl_->sent; }
std::uint64_t Transport::dropped() const noexcept { return impl_->dropped; }

}  // namespace daiv::sentry
