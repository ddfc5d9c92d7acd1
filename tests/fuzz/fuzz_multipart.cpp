#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/multipart.hpp"

namespace {

// Everything that a body says, joined, when it comes in pieces of `step`.
std::string read(std::string_view body, std::size_t step) {
  using namespace daiv::api;
  MultipartParser parser("b");
  std::string out;
  for (;;) {
    MultipartEvent event = parser.next();
    if (const PartBegin* part = std::get_if<PartBegin>(&event)) {
      out += '(' + part->name.value_or("-") + ',' + part->filename.value_or("-") + ')';
    } else if (const PartData* data = std::get_if<PartData>(&event)) {
      if (data->bytes.empty()) std::abort();
      out += data->bytes;
    } else if (std::holds_alternative<PartEnd>(event)) {
      out += '|';
    } else if (std::holds_alternative<BodyEnd>(event)) {
      return out + '$';
    } else if (std::holds_alternative<MalformedBody>(event)) {
      return out + '!';
    } else if (body.empty()) {
      return out;
    } else {
      parser.append(body.substr(0, step));
      body.remove_prefix(std::min(step, body.size()));
    }
  }
}

}  // namespace

// How a body is cut changes nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const std::string whole = read(body, size + 1);
  if (read(body, 1) != whole || read(body, 7) != whole) std::abort();
  return 0;
}
