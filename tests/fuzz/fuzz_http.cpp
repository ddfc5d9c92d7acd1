#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/http_parser.hpp"
#include "api/router.hpp"

namespace {

// The requests that a client's bytes hold, as text, when they come in pieces of `step`; "!" where
// one is refused.
std::string read(std::string_view bytes, std::size_t step) {
  using namespace daiv::api;
  std::string out;
  std::string buffer;
  for (;;) {
    RequestParser parser;
    std::string body;
    while (!parser.done()) {
      const auto used = parser.feed(buffer, body);
      if (!used) return out + '!';
      buffer.erase(0, *used);
      if (*used > 0) continue;
      if (bytes.empty()) return out;
      buffer += bytes.substr(0, step);
      bytes.remove_prefix(std::min(step, bytes.size()));
    }
    const Target target = split_target(parser.head().target);
    find_route(parser.head().method, target.path, "/api/v1");
    query_parameter(target.query, "force");
    out += parser.head().method + ' ' + target.path + '[' + body + ']';
  }
}

}  // namespace

// How bytes are cut must not change which requests they are: that is what smuggling lives on.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read(bytes, size + 1);
  if (read(bytes, 1) != whole || read(bytes, 5) != whole) std::abort();
  return 0;
}
