#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace daiv::sessions::redis {

// Redis can't be reached, refuses, or answers nonsense. The text has no secret and no byte of
// Redis's own but an error's code.
class RedisError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// An answer of the commands that we send.
struct Reply {
  enum class Kind : std::uint8_t { nil, text, integer, error };
  Kind kind = Kind::nil;
  std::string text;  // of `error`, its code alone: "NOAUTH" (the rest may quote what was sent)
  std::int64_t integer = 0;
};

// A command as an array of bulk strings (RESP 2).
std::string encode_command(const std::vector<std::string>& words);

// Bytes in, one reply at a time out. Knows no socket; hiredis parses.
class ReplyReader {
public:
  ReplyReader();
  // Throws RedisError where a reply is an array, malformed, or larger than 64 KiB.
  void feed(std::string_view bytes);
  std::optional<Reply> next();

private:
  void begin_reply();

  struct Free {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, Free> reader_;
  std::size_t unread_ = 0;  // bytes of the reply that is still incomplete
  bool begun_ = false;      // its first byte, which says its kind, was looked at
};

}  // namespace daiv::sessions::redis
