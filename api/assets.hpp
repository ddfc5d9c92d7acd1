#pragma once

#include <string_view>

// Files that are built into the binary (api/embed.py).
namespace daiv::api {

extern const std::string_view openapi_document;  // openapi.json without its version and prefix
extern const std::string_view docs_page;         // docs.html

}  // namespace daiv::api
