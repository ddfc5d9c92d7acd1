#pragma once

#include <map>
#include <string>
#include <string_view>

namespace daiv::api {

// A header value with parameters, such as `form-data; name="x"; filename="y"`.
struct FormHeader {
  std::string value;                              // lower case
  std::map<std::string, std::string> parameters;  // names in lower case
};

// As python-multipart's parse_options_header reads it: quotes and their escapes are removed, and of
// a path in "filename" (Internet Explorer sends one) the last part is kept.
FormHeader parse_form_header(std::string_view text);

}  // namespace daiv::api
