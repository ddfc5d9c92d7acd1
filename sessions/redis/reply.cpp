#include "sessions/redis/reply.hpp"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <new>

namespace daiv::sessions::redis {
namespace {

constexpr std::size_t max_reply_bytes = 64U << 10;
constexpr std::size_t max_code_letters = 32;

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};

// "WRONGPASS invalid username-password pair" → "WRONGPASS". Only letters that cannot be a secret's:
// Redis may quote a command with its arguments.
std::string code_of(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  const bool code = !word.empty() && word.size() <= max_code_letters &&
                    std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
  return std::string(code ? word : "ERR");
}

Reply convert(const redisReply& raw) {
  Reply reply;
  switch (raw.type) {
    case REDIS_REPLY_NIL:
      return reply;
    case REDIS_REPLY_INTEGER:
      reply.kind = Reply::Kind::integer;
      reply.integer = raw.integer;
      return reply;
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_STRING:
      reply.kind = Reply::Kind::text;
      reply.text.assign(raw.str, static_cast<std::size_t>(raw.len));
      return reply;
    case REDIS_REPLY_ERROR:
      reply.kind = Reply::Kind::error;
      reply.text = code_of({raw.str, static_cast<std::size_t>(raw.len)});
      return reply;
    default:
      throw RedisError("Redis: unexpected kind of reply");
  }
}

}  // namespace

std::string encode_command(const std::vector<std::string>& words) {
  std::string bytes = fmt::format("*{}\r\n", words.size());
  for (const auto& word : words) bytes += fmt::format("${}\r\n{}\r\n", word.size(), word);
  return bytes;
}

void ReplyReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

ReplyReader::ReplyReader() : reader_(redisReaderCreate()) {
  if (!reader_) throw std::bad_alloc();
}

void ReplyReader::feed(std::string_view bytes) {
  unread_ += bytes.size();
  if (unread_ > max_reply_bytes) throw RedisError("Redis: a reply is too large");
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK)
    throw RedisError("Redis: a malformed reply");
}

// None of our commands is answered by an array, and a hostile one's size is best never looked at.
void ReplyReader::begin_reply() {
  constexpr std::string_view kinds = "+-:$";
  if (begun_ || reader_->pos == reader_->len) return;
  if (kinds.find(reader_->buf[reader_->pos]) == std::string_view::npos)
    throw RedisError("Redis: unexpected kind of reply");
  begun_ = true;
}

std::optional<Reply> ReplyReader::next() {
  begin_reply();
  void* raw = nullptr;
  if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK)
    throw RedisError("Redis: a malformed reply");
  if (raw == nullptr) return std::nullopt;
  const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(raw));
  unread_ = reader_->len - reader_->pos;
  begun_ = false;
  return convert(*reply);
}

}  // namespace daiv::sessions::redis
