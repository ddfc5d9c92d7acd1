#include "images/manifest.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv;
  std::string_view bytes = fuzz::text_of(data, size);
  const std::uint8_t selector = fuzz::take_selector(bytes);
  if (selector % 3 == 0) {
    const auto config = images::parse_config(bytes);
    if (config)
      for (const auto& entry : config->config.environment)
        fuzz::require(entry.find('=') != std::string::npos);
    return 0;
  }
  const auto parsed = images::parse_manifest(
      bytes, selector % 3 == 1 ? images::media_type::oci_manifest : std::string_view{});
  if (!parsed) return 0;
  if (const auto* manifest = std::get_if<images::Manifest>(&*parsed))
    fuzz::require(manifest->layers.size() <= images::max_layers);
  return 0;
}
