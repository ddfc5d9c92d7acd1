#include "api/json_decode.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = daiv::api::decode_json(daiv::fuzz::text_of(data, size));
  // A position is one of the text: its characters are at most its bytes.
  if (!value) daiv::fuzz::require(value.error().position <= size);
  return 0;
}
