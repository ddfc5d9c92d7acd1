#include "agent/fs_protocol.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = daiv::fuzz::text_of(data, size);
  const std::uint8_t selector = daiv::fuzz::take_selector(bytes);
  try {
    if (selector % 2 == 0) {
      static_cast<void>(daiv::agent::decode_fs_request(bytes));
    } else {
      static_cast<void>(daiv::agent::decode_fs_reply(bytes));
    }
  } catch (const daiv::wire::DecodeError&) {
    return 0;  // the one answer to what is no message
  }
  return 0;
}
