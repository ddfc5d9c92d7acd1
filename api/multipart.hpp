#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

// Takes a multipart/form-data body apart as it comes (RFC 7578), as strictly as python-multipart
// does; knows no socket.
namespace daiv::api {

inline constexpr std::size_t max_boundary_bytes = 256;
inline constexpr std::size_t max_part_head_bytes = 16U << 10;

struct PartBegin {
  std::optional<std::string> name;      // empty where Content-Disposition has none
  std::optional<std::string> filename;  // may be an empty text
};
struct PartData {
  std::string bytes;  // never empty
};
struct PartEnd {};
struct NeedMore {};  // append() before the next call
struct BodyEnd {};   // the last boundary was seen; what follows it is ignored
struct MalformedBody {
  std::string reason;
};
using MultipartEvent = std::variant<PartBegin, PartData, PartEnd, NeedMore, BodyEnd, MalformedBody>;

class MultipartParser {
public:
  explicit MultipartParser(std::string_view boundary);

  void append(std::string_view bytes) { buffer_ += bytes; }
  // What comes next. After MalformedBody and BodyEnd, the same again.
  MultipartEvent next();
  // Whether a part was begun and did not end.
  [[nodiscard]] bool inside_part() const noexcept {
    return state_ == State::data || state_ == State::head;
  }

private:
  enum class State { start, head, data, end, malformed };

  MultipartEvent next_start();
  MultipartEvent next_head();
  MultipartEvent next_data();
  MultipartEvent fail(std::string reason);
  MultipartEvent give_data(std::size_t size);

  std::string delimiter_;  // CR LF "--" boundary
  std::string buffer_;
  State state_ = State::start;
  std::string reason_;
};

}  // namespace daiv::api
