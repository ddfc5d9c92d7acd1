#include <algorithm>
#include <string>
#include <variant>

#include "api/form_header.hpp"
#include "api/multipart.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace daiv;

// What a parser saw, as text: adjacent pieces of data are one.
struct Seen {
  std::string events;

  void add(const api::PartBegin& part) {
    events += "begin " + part.name.value_or("-") + "/" + part.filename.value_or("-") + " ";
  }
  void add(const api::PartData& data) {
    fuzz::require(!data.bytes.empty());
    events += data.bytes;
  }
  void add(const api::PartEnd& /*end*/) { events += " end"; }
  void add(const api::NeedMore& /*more*/) {}
  void add(const api::BodyEnd& /*end*/) { events += " body"; }
  void add(const api::MalformedBody& /*body*/) { events += " malformed"; }
};

std::string parse(std::string_view bytes, std::size_t step) {
  api::MultipartParser parser("boundary");
  Seen seen;
  while (true) {
    const api::MultipartEvent event = parser.next();
    std::visit([&](const auto& one) { seen.add(one); }, event);
    if (std::holds_alternative<api::BodyEnd>(event) ||
        std::holds_alternative<api::MalformedBody>(event))
      break;
    if (!std::holds_alternative<api::NeedMore>(event)) continue;
    if (bytes.empty()) break;
    parser.append(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  return seen.events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  const std::uint8_t selector = fuzz::take_selector(bytes);
  static_cast<void>(api::parse_form_header(bytes));
  const std::string whole = parse(bytes, bytes.size() + 1);
  const std::string pieces = parse(bytes, std::size_t{1} + selector % 5);
  // Where a body is cut by the network changes nothing about it, unless it is broken anyway: then
  // one may have given more of its data than the other when that shows.
  if (!whole.ends_with(" malformed") && !pieces.ends_with(" malformed"))
    fuzz::require(whole == pieces);
  fuzz::require(whole.ends_with(" malformed") == pieces.ends_with(" malformed"));
  return 0;
}
