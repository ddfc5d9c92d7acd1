#include "runtime/broker_protocol.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv;
  std::string_view bytes = fuzz::text_of(data, size);
  const std::uint8_t selector = fuzz::take_selector(bytes);
  try {
    if (selector % 2 == 0) {
      fuzz::require(runtime::encode(runtime::decode_request(bytes)) == bytes);
    } else {
      fuzz::require(runtime::encode(runtime::decode_answer(bytes)) == bytes);
    }
  } catch (const wire::DecodeError&) {
    return 0;  // the one answer to what is no message
  }
  return 0;
}
