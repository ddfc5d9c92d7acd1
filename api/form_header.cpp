#include "api/form_header.hpp"

#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

// The length of the first parameter in `text`: a semicolon inside quotes does not end it.
std::size_t parameter_length(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && quoted) {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ';' && !quoted) {
      return i;
    }
  }
  return text.size();
}

std::string unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '\\' || text[i + 1] == '"');
    if (escape) ++i;
    out += text[i];
  }
  return out;
}

bool is_windows_path(std::string_view name) {
  return (name.size() > 2 && name.substr(1, 2) == ":\\") || name.starts_with("\\\\");
}

}  // namespace

FormHeader parse_form_header(std::string_view text) {
  FormHeader header;
  header.value = wire::lower(wire::trim(text.substr(0, text.find(';'))));
  const std::size_t semicolon = text.find(';');
  std::string_view rest =
      semicolon == std::string_view::npos ? std::string_view() : text.substr(semicolon + 1);
  while (!rest.empty()) {
    const std::size_t length = parameter_length(rest);
    const std::string_view parameter = rest.substr(0, length);
    rest.remove_prefix(std::min(rest.size(), length + 1));
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name = wire::lower(wire::trim(parameter.substr(0, equals)));
    std::string value = unquote(wire::trim(parameter.substr(equals + 1)));
    if (name == "filename" && is_windows_path(value)) value.erase(0, value.rfind('\\') + 1);
    header.parameters[name] = std::move(value);
  }
  return header;
}

}  // namespace daiv::api
