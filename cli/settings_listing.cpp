#include "cli/settings_listing.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace daiv::cli {
namespace {

std::string shown(const SettingValue& value) {
  if (value.text.empty()) return value.text;
  return value.spec->secrecy == Secrecy::secret ? "**********" : value.text;
}

std::string in_code(const std::string& text) {
  return text.empty() ? "–" : fmt::format("`{}`", text);
}

}  // namespace

std::string list_settings(const LoadedSettings& loaded) {
  std::string text;
  for (const auto& value : loaded.values) {
    text += fmt::format("{}={}\n    {} ({})\n", value.spec->name, shown(value), value.spec->meaning,
                        describe(value.source));
  }
  for (const auto& error : loaded.errors) text += fmt::format("error: {}\n", error);
  for (const auto& warning : loaded.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string list_settings_as_json(const LoadedSettings& loaded) {
  nlohmann::json settings = nlohmann::json::array();
  for (const auto& value : loaded.values) {
    settings.push_back({{"name", value.spec->name},
                        {"value", shown(value)},
                        {"source", describe(value.source)},
                        {"default", value.spec->default_value},
                        {"accepted", value.spec->accepted},
                        {"meaning", value.spec->meaning}});
  }
  const nlohmann::json listing = {
      {"settings", settings}, {"errors", loaded.errors}, {"warnings", loaded.warnings}};
  return listing.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string document_settings() {
  std::string text =
      "# Settings\n\n"
      "Made by `daiv-sandbox settings --markdown` from the table in `cli/settings_table.cpp`; a "
      "test compares the two.\n\n"
      "Each setting is looked for in the process's environment, then in a file of its name (whole "
      "or in lower case) under\n"
      "`$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`) and `/run/secrets`, in\n"
      "`/etc/daiv-sandbox/credentials` (a file of its name without the prefix; root's alone), then "
      "in\n"
      "`/etc/daiv-sandbox/daiv-sandbox.env`; the first wins, and an empty value counts as unset. "
      "An unknown\n"
      "`DAIV_SANDBOX_*` name is a warning that says the nearest known one; a bad value stops the "
      "start. Secrets are masked\n"
      "wherever settings are shown. `daiv-sandbox settings` lists the values in effect and where "
      "they come from. Times are seconds;\n"
      "fractions are kept to the millisecond or, where a setting counts whole seconds, rounded "
      "up.\n\n"
      "| setting | default | accepted | meaning |\n| --- | --- | --- | --- |\n";
  for (const auto& spec : settings_table()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", spec.name, in_code(spec.default_value),
                        spec.accepted, spec.meaning);
  }
  return text;
}

}  // namespace daiv::cli
