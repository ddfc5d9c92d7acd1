#include "images/reference.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv;
  const auto reference = images::parse_reference(fuzz::text_of(data, size));
  if (!reference) return 0;
  // The full form of a reference is one, and means the same.
  const auto again = images::parse_reference(reference->string());
  fuzz::require(again.has_value());
  fuzz::require(*again == *reference);
  return 0;
}
