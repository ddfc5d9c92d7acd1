#include "agent/protocol.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/codec.hpp"

namespace {

using namespace daiv;

// One meaning has one form: what decodes, encodes to the same bytes.
template <typename Message>
void round_trip(std::string_view payload) {
  fuzz::require(Message::decode(payload).encode() == payload);
}

void decode(std::uint8_t selector, std::string_view payload) {
  switch (selector % 10) {
    case 0:
      return round_trip<agent::Config>(payload);
    case 1:
      return round_trip<agent::ExecRequest>(payload);
    case 2:
      return round_trip<agent::SeedRequest>(payload);
    case 3:
      return round_trip<agent::SeedData>(payload);
    case 4:
      return round_trip<agent::TerminateRequest>(payload);
    case 5:
      return round_trip<agent::ExecDone>(payload);
    case 6:
      return round_trip<agent::SeedDone>(payload);
    case 7:
      return round_trip<agent::Status>(payload);
    case 8:
      return round_trip<agent::Failed>(payload);
    default:
      agent::parse_frame_header(payload.substr(0, agent::frame_header_bytes),
                                agent::max_answer_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  const std::uint8_t selector = fuzz::take_selector(bytes);
  if (selector % 10 == 9 && bytes.size() < agent::frame_header_bytes) return 0;
  try {
    decode(selector, bytes);
  } catch (const wire::DecodeError&) {
    return 0;  // the one answer to what is no message
  }
  return 0;
}
