#include "api/multipart.hpp"

#include <algorithm>
#include <utility>

#include "api/form_header.hpp"
#include "api/http_message.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

// Reads one header line into `part`; false where it is none.
bool read_field(std::string_view line, PartBegin& part) {
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const std::string_view name = line.substr(0, colon);
  if (!std::all_of(name.begin(), name.end(), wire::is_token_character)) return false;
  if (!wire::equal_ignoring_case(name, "Content-Disposition")) return true;
  FormHeader header = parse_form_header(wire::trim(line.substr(colon + 1)));
  part = PartBegin();
  if (const auto found = header.parameters.find("name"); found != header.parameters.end())
    part.name = std::move(found->second);
  if (const auto found = header.parameters.find("filename"); found != header.parameters.end())
    part.filename = std::move(found->second);
  return true;
}

}  // namespace

MultipartParser::MultipartParser(std::string_view boundary) : delimiter_("\r\n--") {
  delimiter_ += boundary;
}

MultipartEvent MultipartParser::next() {
  switch (state_) {
    case State::start:
      return next_start();
    case State::head:
      return next_head();
    case State::data:
      return next_data();
    case State::end:
      buffer_.clear();
      return BodyEnd{};
    case State::malformed:
      return MalformedBody{reason_};
  }
  return NeedMore{};
}

MultipartEvent MultipartParser::fail(std::string reason) {
  state_ = State::malformed;
  buffer_.clear();
  reason_ = std::move(reason);
  return MalformedBody{reason_};
}

// The first boundary: line ends before it are skipped, anything else is no multipart body.
MultipartEvent MultipartParser::next_start() {
  const std::size_t first = std::min(buffer_.find_first_not_of("\r\n"), buffer_.size());
  buffer_.erase(0, first);
  const std::string_view dashed = std::string_view(delimiter_).substr(2);
  const std::string_view seen = std::string_view(buffer_).substr(0, dashed.size());
  if (!dashed.starts_with(seen)) return fail("the body does not start with the boundary");
  if (buffer_.size() < dashed.size() + 2) return NeedMore{};
  const std::string_view end = std::string_view(buffer_).substr(dashed.size(), 2);
  if (end != "\r\n" && end != "--") return fail("the first boundary is not followed by a line end");
  state_ = end == "--" ? State::end : State::head;
  buffer_.erase(0, dashed.size() + 2);
  return next();
}

MultipartEvent MultipartParser::next_head() {
  const std::string_view bytes = buffer_;
  PartBegin part;
  std::size_t at = 0;
  for (;;) {
    const std::size_t end = bytes.find("\r\n", at);
    if (end == std::string_view::npos) break;
    if (end == at) {
      buffer_.erase(0, at + 2);
      state_ = State::data;
      return part;
    }
    if (!read_field(bytes.substr(at, end - at), part)) return fail("malformed part header");
    at = end + 2;
  }
  if (bytes.size() > max_part_head_bytes) return fail("part header too long");
  return NeedMore{};
}

MultipartEvent MultipartParser::give_data(std::size_t size) {
  PartData data{buffer_.substr(0, size)};
  buffer_.erase(0, size);
  return data;
}

// Everything up to the next delimiter that a line end or "--" follows is content. What could be the
// beginning of a delimiter is kept back.
MultipartEvent MultipartParser::next_data() {
  const std::string_view bytes = buffer_;
  const std::size_t found = bytes.find(delimiter_);
  if (found == std::string_view::npos) {
    // Nothing before the last CR that is short enough can start one.
    const std::size_t tail =
        bytes.size() < delimiter_.size() ? 0 : bytes.size() - delimiter_.size() + 1;
    const std::size_t open = std::min(bytes.find('\r', tail), bytes.size());
    return open == 0 ? MultipartEvent(NeedMore{}) : give_data(open);
  }
  if (found > 0) return give_data(found);
  const std::size_t size = delimiter_.size();
  if (bytes.size() < size + 2) return NeedMore{};
  const std::string_view end = bytes.substr(size, 2);
  if (end != "\r\n" && end != "--") return give_data(size);
  state_ = end == "--" ? State::end : State::head;
  buffer_.erase(0, size + 2);
  return PartEnd{};
}

}  // namespace daiv::api
