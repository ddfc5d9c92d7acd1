#include "proxy/http2_session.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "proxy/detail/nghttp2_handle.hpp"

namespace daiv::proxy {
namespace {

constexpr std::size_t field_overhead = 32;  // RFC 9113 §6.5.2, SETTINGS_MAX_HEADER_LIST_SIZE

bool is_interim(const std::vector<Field>& fields) {
  return !fields.empty() && fields[0].name == ":status" && fields[0].value.starts_with('1');
}

}  // namespace

// What nghttp2 calls. No exception may cross it: out of memory ends the connection.
struct Http2Session::Callbacks {
  template <typename Work>
  static int guard(Work work) noexcept {
    try {
      return work();
    } catch (const std::exception&) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static Http2Session& self(void* data) { return *static_cast<Http2Session*>(data); }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      const std::int32_t id = frame->hd.stream_id;
      if (frame->hd.type != NGHTTP2_HEADERS) return 0;
      if (its.role_ == Http2Role::server && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        if (its.streams_.size() >= http2_max_kept_streams)
          return ::nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                             NGHTTP2_REFUSED_STREAM);
        its.streams_.try_emplace(id);
      }
      if (Http2Stream* stream = its.find(id)) {
        stream->coming = Http2Head();
        stream->coming_bytes = 0;
      }
      return 0;
    });
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      Http2Stream* stream = its.find(frame->hd.stream_id);
      if (stream == nullptr) return 0;
      Http2Head& head = stream->coming;
      const std::size_t size = name_size + value_size + field_overhead;
      stream->coming_bytes += size;
      if (stream->coming_bytes > max_decoded_head_bytes)
        return static_cast<int>(NGHTTP2_ERR_CALLBACK_FAILURE);
      if (stream->coming_bytes > max_head_bytes || head.fields.size() >= max_fields ||
          its.head_bytes_ + size > http2_max_heads_bytes) {
        head.fault = {431, "header fields too large"};
        return 0;
      }
      stream->head_bytes += size;
      its.head_bytes_ += size;
      head.fields.push_back(Field{std::string(reinterpret_cast<const char*>(name), name_size),
                                  std::string(reinterpret_cast<const char*>(value), value_size)});
      return 0;
    });
  }

  static int on_invalid_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t*,
                               std::size_t, const std::uint8_t*, std::size_t, std::uint8_t,
                               void* data) {
    return guard([&] {
      if (Http2Stream* stream = self(data).find(frame->hd.stream_id))
        stream->coming.fault = {400, "a header field that is none"};
      return 0;
    });
  }

  static void take_fields(Http2Session& its, const nghttp2_frame& frame) {
    const std::int32_t id = frame.hd.stream_id;
    Http2Stream* stream = its.find(id);
    if (stream == nullptr) return;
    Http2Head head = std::exchange(stream->coming, Http2Head());
    head.is_last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    stream->ended = stream->ended || head.is_last;
    its.note(id);
    if (stream->has_head) {
      if (head.fault.text.empty()) stream->trailers = std::move(head.fields);
      return;
    }
    stream->has_head = its.role_ == Http2Role::server || !is_interim(head.fields);
    // An origin has no reason to send many that are not final.
    if (stream->has_head || stream->heads.size() < max_interim_heads)
      stream->heads.push_back(std::move(head));
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
          take_fields(its, *frame);
          break;
        case NGHTTP2_DATA:
          if (Http2Stream* stream = its.find(frame->hd.stream_id)) {
            if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) break;
            stream->ended = true;
            its.note(frame->hd.stream_id);
          }
          break;
        case NGHTTP2_GOAWAY:
          its.draining_ = true;
          break;
        default:
          break;
      }
      return 0;
    });
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      Http2Stream* stream = its.find(id);
      if (stream == nullptr) return ::nghttp2_session_consume(session, id, size);
      stream->received.append(reinterpret_cast<const char*>(bytes), size);
      stream->unconsumed += size;
      stream->received_bytes += size;
      its.note(id);
      return 0;
    });
  }

  static int close(Http2Session& its, std::int32_t id, std::uint32_t error) {
    Http2Stream* stream = its.find(id);
    if (stream == nullptr) return 0;
    stream->closed = true;
    stream->error = static_cast<Http2Error>(error);
    its.note(id);
    // Nobody has been told of a request whose head never became whole.
    if (its.role_ == Http2Role::client || stream->has_head) return 0;
    ++its.malformed_;
    its.erase(id);
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* data) {
    return guard([&] { return close(self(data), id, error); });
  }

  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                        (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS);
      Http2Stream* stream = ends ? its.find(frame->hd.stream_id) : nullptr;
      if (stream == nullptr) return 0;
      stream->end_sent = true;
      its.note(frame->hd.stream_id);
      return 0;
    });
  }

  // A request that the peer's GOAWAY has left in our queue.
  static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* data) {
    return guard([&] {
      Http2Session& its = self(data);
      if (frame->hd.type == NGHTTP2_HEADERS && its.role_ == Http2Role::client)
        close(its, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
      return 0;
    });
  }

  static ssize_t read_body(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                           std::size_t room, std::uint32_t* flags, nghttp2_data_source*,
                           void* data) {
    Http2Session& its = self(data);
    Http2Stream* stream = its.find(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    std::size_t taken = 0;
    const int result = guard([&] {
      taken = std::min(room, stream->unsent.size() - stream->sent);
      std::memcpy(buffer, stream->unsent.data() + stream->sent, taken);
      stream->sent += taken;
      if (!stream->is_drained()) return 0;
      stream->unsent.clear();
      stream->sent = 0;
      its.note(id);
      if (stream->ending == Http2Stream::Ending::open) return 0;
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (stream->ending == Http2Stream::Ending::end) return 0;
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const auto pairs = borrow_fields(stream->last_fields, {});
      return ::nghttp2_submit_trailer(session, id, pairs.data(), pairs.size());
    });
    if (result != 0) return result;
    const bool waits = taken == 0 && (*flags & NGHTTP2_DATA_FLAG_EOF) == 0;
    return waits ? static_cast<ssize_t>(NGHTTP2_ERR_DEFERRED) : static_cast<ssize_t>(taken);
  }

  static nghttp2_data_provider body() {
    nghttp2_data_provider provider{};
    provider.read_callback = read_body;
    return provider;
  }

  static std::unique_ptr<nghttp2_session_callbacks, Nghttp2Delete> make() {
    nghttp2_session_callbacks* made = nullptr;
    check_nghttp2(::nghttp2_session_callbacks_new(&made), "nghttp2_session_callbacks_new");
    std::unique_ptr<nghttp2_session_callbacks, Nghttp2Delete> owned(made);
    ::nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers);
    ::nghttp2_session_callbacks_set_on_header_callback(made, on_header);
    ::nghttp2_session_callbacks_set_on_invalid_header_callback(made, on_invalid_header);
    ::nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
    ::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data);
    ::nghttp2_session_callbacks_set_on_stream_close_callback(made, on_close);
    ::nghttp2_session_callbacks_set_on_frame_send_callback(made, on_sent);
    ::nghttp2_session_callbacks_set_on_frame_not_send_callback(made, on_not_sent);
    return owned;
  }
};

void Http2Session::Deleter::operator()(nghttp2_session* session) const noexcept {
  ::nghttp2_session_del(session);
}

Http2Session::Http2Session(Http2Role role) : role_(role) {
  const auto options = make_nghttp2_options();
  const auto callbacks = Callbacks::make();
  nghttp2_session* made = nullptr;
  const bool is_server = role == Http2Role::server;
  check_nghttp2(is_server
                    ? ::nghttp2_session_server_new2(&made, callbacks.get(), this, options.get())
                    : ::nghttp2_session_client_new2(&made, callbacks.get(), this, options.get()),
                "nghttp2_session_new");
  session_.reset(made);
  const std::array<nghttp2_settings_entry, 3> settings{{
      is_server ? nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, http2_max_streams}
                : nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, is_server ? http2_upload_window : http2_stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, max_head_bytes},
  }};
  check_nghttp2(
      ::nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings.data(), settings.size()),
      "nghttp2_submit_settings");
}

Http2Session::~Http2Session() = default;

void Http2Session::note(std::int32_t id) {
  if (changed_.empty() || changed_.back() != id) changed_.push_back(id);
}

void Http2Session::fail(std::string text) {
  if (broken_.empty()) broken_ = std::move(text);
}

bool Http2Session::feed(std::string_view bytes) {
  if (!broken_.empty()) return false;
  const auto taken = ::nghttp2_session_mem_recv(
      session_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (taken < 0) fail(::nghttp2_strerror(static_cast<int>(taken)));
  // Answers to what it asks, that it does not take.
  if (::nghttp2_session_get_outbound_queue_size(session_.get()) > http2_max_queued_frames)
    fail("too many frames are waiting for the peer");
  return broken_.empty();
}

std::string Http2Session::take_output(std::size_t max) {
  std::string output;
  while (output.size() < max && broken_.empty()) {
    const std::uint8_t* bytes = nullptr;
    const auto size = ::nghttp2_session_mem_send(session_.get(), &bytes);
    if (size < 0) fail(::nghttp2_strerror(static_cast<int>(size)));
    if (size <= 0) break;
    output.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  return output;
}

bool Http2Session::is_alive() const {
  return broken_.empty() && (::nghttp2_session_want_read(session_.get()) != 0 ||
                             ::nghttp2_session_want_write(session_.get()) != 0);
}

std::vector<std::int32_t> Http2Session::take_changed() { return std::exchange(changed_, {}); }

std::size_t Http2Session::take_malformed() { return std::exchange(malformed_, 0); }

Http2Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

std::optional<std::int32_t> Http2Session::open_stream(const std::vector<Field>& fields,
                                                      bool is_last, std::string_view secret_name) {
  if (draining_ || !broken_.empty()) return std::nullopt;
  const auto pairs = borrow_fields(fields, secret_name);
  const nghttp2_data_provider body = Callbacks::body();
  const auto id = ::nghttp2_submit_request(session_.get(), nullptr, pairs.data(), pairs.size(),
                                           is_last ? nullptr : &body, nullptr);
  if (id < 0) {
    draining_ = true;  // the numbers of streams are used up (RFC 9113 §5.1.1)
    return std::nullopt;
  }
  streams_.try_emplace(id);
  return id;
}

void Http2Session::send_interim(std::int32_t id, const std::vector<Field>& fields) {
  const Http2Stream* stream = find(id);
  if (stream == nullptr || stream->closed) return;
  const auto pairs = borrow_fields(fields, {});
  const auto result = ::nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, id, nullptr,
                                               pairs.data(), pairs.size(), nullptr);
  if (result != 0) fail(::nghttp2_strerror(result));
}

void Http2Session::send_head(std::int32_t id, const std::vector<Field>& fields, bool is_last) {
  const Http2Stream* stream = find(id);
  if (stream == nullptr || stream->closed) return;
  const auto pairs = borrow_fields(fields, {});
  const nghttp2_data_provider body = Callbacks::body();
  const int result = ::nghttp2_submit_response(session_.get(), id, pairs.data(), pairs.size(),
                                               is_last ? nullptr : &body);
  if (result != 0) fail(::nghttp2_strerror(result));
}

void Http2Session::send_body(std::int32_t id, std::string data) {
  Http2Stream* stream = find(id);
  if (stream == nullptr || stream->closed || data.empty()) return;
  if (stream->unsent.empty())
    stream->unsent = std::move(data);
  else
    stream->unsent += data;
  // Fails where it was not deferred, which is no fault.
  ::nghttp2_session_resume_data(session_.get(), id);
}

void Http2Session::end_body(std::int32_t id, std::vector<Field> trailers) {
  using Ending = Http2Stream::Ending;
  Http2Stream* stream = find(id);
  if (stream == nullptr || stream->closed || stream->ending != Ending::open) return;
  stream->ending = trailers.empty() ? Ending::end : Ending::trailers;
  stream->last_fields = std::move(trailers);
  ::nghttp2_session_resume_data(session_.get(), id);
}

void Http2Session::reset(std::int32_t id, Http2Error error) {
  const Http2Stream* stream = find(id);
  if (stream == nullptr || stream->closed) return;
  ::nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id,
                              static_cast<std::uint32_t>(error));
}

void Http2Session::consume(std::int32_t id, std::size_t count) {
  Http2Stream* stream = find(id);
  if (stream == nullptr) return;
  count = std::min(count, stream->unconsumed);
  stream->unconsumed -= count;
  if (count > 0) ::nghttp2_session_consume(session_.get(), id, count);
}

void Http2Session::widen(std::size_t bytes) {
  const auto size = static_cast<std::int32_t>(http2_connection_window + bytes);
  ::nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0, size);
}

void Http2Session::forget(std::int32_t id) {
  const Http2Stream* stream = find(id);
  if (stream == nullptr) return;
  reset(id, Http2Error::cancel);
  consume(id, stream->unconsumed);
  erase(id);
}

void Http2Session::erase(std::int32_t id) {
  const auto found = streams_.find(id);
  head_bytes_ -= found->second.head_bytes;
  streams_.erase(found);
}

void Http2Session::close_all() {
  for (auto& [id, stream] : streams_) {
    if (!stream.closed) stream.error = Http2Error::internal;
    stream.closed = true;
    note(id);
  }
  draining_ = true;
}

void Http2Session::go_away(Http2Error error) {
  ::nghttp2_session_terminate_session(session_.get(), static_cast<std::uint32_t>(error));
}

}  // namespace daiv::proxy
