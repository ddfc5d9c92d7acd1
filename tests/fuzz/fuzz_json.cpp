#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json_decode.hpp"
#include "api/json_write.hpp"
#include "api/models.hpp"

// A body that decodes is written and read again to the same text, and every model takes or refuses
// it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv::api;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto value = decode_json(body);
  if (!value) {
    if (value.error().position > size) std::abort();
    return 0;
  }
  std::string text;
  append_json(text, *value);
  std::string again;
  append_json(again, *decode_json(text));
  if (again != text) std::abort();
  for (const Schema* schema : {&start_session_model(), &egress_model(), &run_model(),
                               &fs_ls_model(), &fs_read_model(), &fs_grep_model(), &fs_glob_model(),
                               &fs_write_model(), &fs_edit_model(), &fs_delete_model()}) {
    const auto errors = check_schema(*schema, *value, {"body"});
    if (!errors.empty() && !decode_json(validation_answer(errors))) std::abort();
  }
  return 0;
}
