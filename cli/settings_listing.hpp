#pragma once

#include <string>

#include "cli/settings.hpp"

namespace daiv::cli {

// Secret values are shown as ********** wherever they are set.
std::string list_settings(const LoadedSettings& loaded);
std::string list_settings_as_json(const LoadedSettings& loaded);
// docs/settings.md, which a test compares with this.
std::string document_settings();

}  // namespace daiv::cli
