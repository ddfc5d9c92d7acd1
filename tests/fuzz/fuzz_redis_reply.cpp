#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sessions/redis/reply.hpp"
#include "tests/fuzz/input.hpp"

using namespace daiv::sessions::redis;

namespace {

// What was read before the bytes ended or were refused, one line a reply.
std::string read_replies(std::string_view bytes, std::size_t step) {
  std::string replies;
  ReplyReader reader;
  try {
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      reader.feed(bytes.substr(at, step));
      while (const auto reply = reader.next()) {
        if (reply->kind == Reply::Kind::error)
          daiv::fuzz::require(reply->text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
                              std::string::npos);
        replies += std::to_string(static_cast<int>(reply->kind)) + reply->text + ' ' +
                   std::to_string(reply->integer) + '\n';
      }
    }
  } catch (const RedisError&) {
    replies += "refused";
  }
  return replies;
}

}  // namespace

// However the bytes are cut, the replies are the same, and an error is known by its code alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 60U << 10;  // below the bound of one reply
  const std::string_view bytes = daiv::fuzz::text_of(data, std::min(size, most));
  daiv::fuzz::require(read_replies(bytes, bytes.size() + 1) == read_replies(bytes, 1));
  return 0;
}
