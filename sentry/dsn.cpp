#include "sentry/dsn.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "wire/ascii.hpp"

namespace daiv::sentry {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return wire::is_alphanumeric(c) || c == '_' || c == '-';
  });
}

}  // namespace

std::expected<Dsn, std::string> parse_dsn(std::string_view text) {
  const auto scheme_end = text.find("://");
  const auto scheme = text.substr(0, scheme_end);
  if (scheme_end == std::string_view::npos || (scheme != "http" && scheme != "https"))
    return std::unexpected("it must begin with http:// or https://");
  const auto rest = text.substr(scheme_end + 3);
  const auto at = rest.find('@');
  if (at == std::string_view::npos) return std::unexpected("it has no key (KEY@HOST)");
  const auto key = rest.substr(0, std::min(at, rest.find(':')));
  if (!is_name(key)) return std::unexpected("its key is not made of letters and digits");
  const auto place = rest.substr(at + 1);
  const auto first_slash = place.find('/');
  const auto last_slash = place.rfind('/');
  if (first_slash == std::string_view::npos || first_slash == 0)
    return std::unexpected("it has no host or no project");
  const auto project = place.substr(last_slash + 1);
  if (!is_name(project)) return std::unexpected("it does not end in a project number");
  return Dsn{fmt::format("{}://{}{}/api/{}/envelope/", scheme, place.substr(0, first_slash),
                         place.substr(first_slash, last_slash - first_slash), project),
             std::string(key)};
}

}  // namespace daiv::sentry
