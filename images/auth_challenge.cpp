#include "images/auth_challenge.hpp"

#include <algorithm>

#include "wire/ascii.hpp"

namespace daiv::images {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Reads along a field's value.
class Cursor {
public:
  explicit Cursor(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool at(char c) const { return rest_.starts_with(c); }
  void skip() { rest_.remove_prefix(1); }

  // Blanks, and commas where `commas` says so.
  bool skip_blanks() {
    const auto before = rest_.size();
    while (!rest_.empty() && is_blank(rest_.front())) skip();
    return rest_.size() != before;
  }
  void skip_separators() {
    while (!rest_.empty() && (is_blank(rest_.front()) || rest_.front() == ',')) skip();
  }

  std::string_view token() {
    const auto length = static_cast<std::size_t>(
        std::ranges::find_if_not(rest_, wire::is_token_character) - rest_.begin());
    const auto text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return text;
  }

  // A quoted string with its escapes undone, or what stands there up to a comma or blank: scopes
  // and URLs come unquoted from some servers.
  std::string value() {
    std::string text;
    if (!at('"')) {
      while (!rest_.empty() && rest_.front() != ',' && !is_blank(rest_.front())) take_into(text);
      return text;
    }
    skip();
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\' && rest_.size() > 1) skip();
      take_into(text);
    }
    if (!rest_.empty()) skip();
    return text;
  }

private:
  void take_into(std::string& text) {
    text += rest_.front();
    skip();
  }

  std::string_view rest_;
};

void set_parameter(AuthChallenge& challenge, const std::string& name, std::string value) {
  std::string* member = nullptr;
  if (name == "realm") member = &challenge.realm;
  if (name == "service") member = &challenge.service;
  if (name == "scope") member = &challenge.scope;
  // The first one stays: a parameter must not occur twice (RFC 9110 §11.2).
  if (member != nullptr && member->empty()) *member = std::move(value);
}

void parse_field(std::string_view field, std::vector<AuthChallenge>& challenges) {
  Cursor cursor(field);
  bool in_challenge = false;
  for (cursor.skip_separators(); !cursor.at_end(); cursor.skip_separators()) {
    const auto word = cursor.token();
    if (word.empty()) {  // no token starts here: step over it, so that the loop ends
      cursor.skip();
      continue;
    }
    // "word =" is a parameter, "word" alone begins a challenge; token68 after a scheme reads as
    // junk and is skipped.
    cursor.skip_blanks();
    if (cursor.at('=')) {
      cursor.skip();
      cursor.skip_blanks();
      auto value = cursor.value();
      if (in_challenge) set_parameter(challenges.back(), wire::lower(word), std::move(value));
      continue;
    }
    if (challenges.size() == max_challenges) return;
    challenges.push_back({.scheme = wire::lower(word), .realm = {}, .service = {}, .scope = {}});
    in_challenge = true;
  }
}

}  // namespace

std::vector<AuthChallenge> parse_challenges(const std::vector<std::string>& fields) {
  std::vector<AuthChallenge> challenges;
  for (const auto& field : fields) parse_field(field, challenges);
  return challenges;
}

}  // namespace daiv::images
