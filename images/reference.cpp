#include "images/reference.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "wire/ascii.hpp"

// The grammar is that of the distribution project's reference package (reference/regexp.go and
// normalize.go), by hand: a match of the whole text, one function per production.
namespace daiv::images {
namespace {

constexpr std::string_view default_domain = "docker.io";
constexpr std::string_view legacy_domain = "index.docker.io";
constexpr std::string_view official_path = "library/";
constexpr std::size_t image_id_length = 64;

bool is_hex(char c) { return wire::hex_value(c) >= 0; }
bool is_path_alnum(char c) { return wire::is_digit(c) || wire::is_lower(c); }
bool is_tag_char(char c) { return wire::is_alphanumeric(c) || c == '_' || c == '.' || c == '-'; }
bool has_upper(std::string_view text) { return std::ranges::any_of(text, wire::is_upper); }

// domain-component: letters, digits and dashes, no dash at either end.
bool is_domain_component(std::string_view text) {
  return !text.empty() && wire::is_alphanumeric(text.front()) &&
         wire::is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, [](char c) { return wire::is_alphanumeric(c) || c == '-'; });
}

bool is_host_name(std::string_view text) {
  for (;;) {
    const auto dot = text.find('.');
    if (!is_domain_component(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_ipv6_literal(std::string_view text) {
  return text.size() > 2 && text.front() == '[' && text.back() == ']' &&
         std::ranges::all_of(text.substr(1, text.size() - 2),
                             [](char c) { return is_hex(c) || c == ':'; });
}

bool is_domain(std::string_view text) {
  const auto colon = text.rfind(':');
  const bool in_brackets = text.ends_with(']');
  if (colon != std::string_view::npos && !in_brackets) {
    const auto port = text.substr(colon + 1);
    if (port.empty() || !std::ranges::all_of(port, wire::is_digit)) return false;
    text = text.substr(0, colon);
  }
  return is_host_name(text) || is_ipv6_literal(text);
}

// separator: one dot, one or two underscores, or any number of dashes. Returns its length, 0 if
// there is none.
std::size_t separator_length(std::string_view text) {
  if (text.starts_with('.')) return 1;
  if (text.starts_with("__")) return 2;
  if (text.starts_with('_')) return 1;
  return std::min(text.find_first_not_of('-'), text.size());
}

bool is_path_component(std::string_view text) {
  for (;;) {
    const auto word =
        static_cast<std::size_t>(std::ranges::find_if_not(text, is_path_alnum) - text.begin());
    if (word == 0) return false;
    text.remove_prefix(word);
    if (text.empty()) return true;
    const auto separator = separator_length(text);
    if (separator == 0) return false;
    text.remove_prefix(separator);
  }
}

bool is_path(std::string_view text) {
  for (;;) {
    const auto slash = text.find('/');
    if (!is_path_component(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= max_tag_length && text.front() != '.' &&
         text.front() != '-' && std::ranges::all_of(text, is_tag_char);
}

struct SplitName {
  std::string domain;
  std::string remainder;
};

// A first component counts as a host by how it looks (splitDockerDomain): an upper-case letter
// can't be in a path.
SplitName split_domain(std::string_view text) {
  const auto slash = text.find('/');
  const auto first = text.substr(0, slash);
  const bool is_host =
      slash != std::string_view::npos && (first.find_first_of(".:") != std::string_view::npos ||
                                          first == "localhost" || has_upper(first));
  SplitName split;
  if (is_host) {
    split.domain = first == legacy_domain ? default_domain : first;
    split.remainder = text.substr(slash + 1);
  } else {
    split.domain = default_domain;
    split.remainder = text;
  }
  if (split.domain == default_domain && !split.remainder.contains('/')) {
    split.remainder.insert(0, official_path);
  }
  return split;
}

std::unexpected<ParseError> refuse(std::string_view text, std::string_view reason) {
  constexpr std::size_t shown = 300;
  std::string printable(text.substr(0, shown));
  std::ranges::replace_if(printable, [](char c) { return c < ' ' || c > '~'; }, '?');
  return std::unexpected(
      ParseError{fmt::format("invalid image reference \"{}\": {}", printable, reason)});
}

}  // namespace

std::string Reference::name() const { return fmt::format("{}/{}", domain, path); }

std::string Reference::string() const {
  std::string text = name();
  if (!tag.empty()) text += ":" + tag;
  if (digest) text += "@" + digest->string();
  return text;
}

std::expected<Reference, ParseError> parse_reference(std::string_view text) {
  if (text.empty()) return refuse(text, "it is empty");
  if (text.size() > max_reference_length) return refuse(text, "it is too long");
  if (text.size() == image_id_length &&
      std::ranges::all_of(text, [](char c) { return is_hex(c) && !wire::is_upper(c); })) {
    return refuse(text, "64 hexadecimal digits are an image id, not a name");
  }
  const auto [domain, remainder] = split_domain(text);

  // The digest is what follows the first "@", the tag what follows the last ":" before it: neither
  // character can be in a path, so a wrong split fails the checks below.
  std::string_view rest = remainder;
  std::optional<Digest> digest;
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    const auto parsed = Digest::parse(rest.substr(at + 1));
    if (!parsed) return refuse(text, parsed.error().text);
    digest = *parsed;
    rest = rest.substr(0, at);
  }
  const auto colon = rest.find(':');
  const auto path = rest.substr(0, colon);
  if (has_upper(path)) return refuse(text, "the repository name must be lower case");
  if (domain.size() > max_domain_length || !is_domain(domain))
    return refuse(text, "the registry's name is malformed");
  if (!is_path(path)) return refuse(text, "the repository name is malformed");
  if (path.size() > max_repository_length) {
    return refuse(text, fmt::format("the repository name has more than {} characters",
                                    max_repository_length));
  }
  std::string tag;
  if (colon != std::string_view::npos) {
    tag = rest.substr(colon + 1);
    if (!is_tag(tag)) {
      return refuse(text,
                    fmt::format("the tag must be 1 to {} letters, digits, \"_\", \".\" or \"-\"",
                                max_tag_length));
    }
  } else if (!digest) {
    tag = "latest";
  }
  return Reference{
      .domain = domain, .path = std::string(path), .tag = std::move(tag), .digest = digest};
}

}  // namespace daiv::images
