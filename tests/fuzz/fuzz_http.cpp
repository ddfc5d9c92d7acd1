#include <algorithm>
#include <string>

#include "api/http_parser.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace daiv;

struct Seen {
  int status = 0;
  bool done = false;
  std::string body;

  friend bool operator==(const Seen&, const Seen&) = default;
};

// Gives the parser `bytes` in pieces of `step`, each with what the last call left.
Seen parse(std::string_view bytes, std::size_t step) {
  api::RequestParser parser;
  Seen seen;
  std::string pending;
  while (!parser.done()) {
    const auto used = parser.feed(pending, seen.body);
    if (!used) {
      seen.status = used.error().status;
      return seen;
    }
    fuzz::require(*used <= pending.size());
    pending.erase(0, *used);
    if (*used != 0) continue;
    if (bytes.empty()) break;
    pending += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  seen.done = parser.done();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  const std::size_t step = 1 + fuzz::take_selector(bytes) % 7;
  // Where a request is cut by the network changes nothing about it.
  const Seen whole = parse(bytes, bytes.size() + 1);
  const Seen pieces = parse(bytes, step);
  fuzz::require(whole.done == pieces.done);
  if (whole.done) fuzz::require(whole == pieces);
  return 0;
}
