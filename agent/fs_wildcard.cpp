#include "agent/fs_wildcard.hpp"

#include <algorithm>
#include <cwctype>
#include <limits>

#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

// Bytes that are no UTF-8 follow after all code points.
constexpr std::uint32_t first_lone_byte = 0x110000;

std::uint32_t take_character(std::string_view& text) {
  const Utf8Character character = decode_utf8(text);
  if (character.length == 0) {
    const std::uint32_t value = first_lone_byte + static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    return value;
  }
  text.remove_prefix(character.length);
  return character.code_point;
}

std::vector<std::uint32_t> characters_of(std::string_view text) {
  std::vector<std::uint32_t> characters;
  while (!text.empty()) characters.push_back(take_character(text));
  return characters;
}

bool is_in_class(std::uint32_t character, const std::string& name) {
  // The classes of the C locale: the worker sets no other one (wctype(3)).
  if (character >= first_lone_byte) return false;
  const std::wctype_t type = std::wctype(name.c_str());
  return type != 0 && std::iswctype(static_cast<std::wint_t>(character), type) != 0;
}

// Reads "[:name:]" at `at`; leaves `at` alone where it is none.
bool take_class(const std::vector<std::uint32_t>& pattern, std::size_t& at, std::string& name) {
  if (at + 1 >= pattern.size() || pattern[at] != '[' || pattern[at + 1] != ':') return false;
  std::string read;
  for (std::size_t i = at + 2; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == ':' && pattern[i + 1] == ']') {
      name = std::move(read);
      at = i + 2;
      return true;
    }
    if (pattern[i] < 'a' || pattern[i] > 'z') return false;
    read += static_cast<char>(pattern[i]);
  }
  return false;
}

}  // namespace

// Parses the set whose "[" is at `at`; on success `at` is after its "]".
bool Wildcard::parse_set(const std::vector<std::uint32_t>& pattern, std::size_t& at,
                         WildcardFlavour flavour, Token& token) {
  const bool shell = flavour == WildcardFlavour::shell;
  std::size_t i = at + 1;
  token.kind = Kind::set;
  if (i < pattern.size() && (pattern[i] == '!' || (shell && pattern[i] == '^'))) {
    token.negated = true;
    ++i;
  }
  const auto take_member = [&]() -> std::uint32_t {
    if (shell && pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    return pattern[i++];
  };
  for (const std::size_t begin = i; i < pattern.size();) {
    if (pattern[i] == ']' && i > begin) {
      at = i + 1;
      return true;
    }
    std::string name;
    if (shell && take_class(pattern, i, name)) {
      token.classes.push_back(std::move(name));
      continue;
    }
    const std::uint32_t low = take_member();
    const bool range = i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']';
    if (range) ++i;
    token.ranges.emplace_back(low, range ? take_member() : low);
  }
  return false;
}

Wildcard::Wildcard(std::string_view text, WildcardFlavour flavour) {
  const std::vector<std::uint32_t> pattern = characters_of(text);
  for (std::size_t at = 0; at < pattern.size();) {
    Token token;
    if (pattern[at] == '[' && parse_set(pattern, at, flavour, token)) {
      tokens_.push_back(std::move(token));
      continue;
    }
    std::uint32_t character = pattern[at++];
    if (flavour == WildcardFlavour::shell && character == '\\' && at < pattern.size()) {
      tokens_.push_back({Kind::character, pattern[at++]});
    } else if (character == '*') {
      // "**" within a name is "*".
      if (tokens_.empty() || tokens_.back().kind != Kind::star) tokens_.push_back({Kind::star});
    } else {
      tokens_.push_back({character == '?' ? Kind::any : Kind::character, character});
    }
  }
  const auto is_character = [](const Token& token) { return token.kind == Kind::character; };
  const bool star_first = !tokens_.empty() && tokens_.front().kind == Kind::star;
  if (std::all_of(tokens_.begin() + (star_first ? 1 : 0), tokens_.end(), is_character)) {
    is_suffix_ = star_first;
    is_literal_ = !star_first;
    for (const Token& token : tokens_) {
      if (token.kind == Kind::star) continue;
      if (token.character >= first_lone_byte) {
        literal_ += static_cast<char>(token.character - first_lone_byte);
      } else {
        append_utf8(literal_, token.character);
      }
    }
  }
}

bool Wildcard::accepts(const Token& token, std::uint32_t character) {
  if (token.kind == Kind::any) return true;
  if (token.kind == Kind::character) return token.character == character;
  const bool in_set =
      std::ranges::any_of(token.ranges,
                          [&](const auto& range) {
                            return range.first <= character && character <= range.second;
                          }) ||
      std::ranges::any_of(token.classes,
                          [&](const std::string& name) { return is_in_class(character, name); });
  return in_set != token.negated;
}

bool Wildcard::matches(std::string_view name) const {
  if (is_literal_) return name == literal_;
  // A suffix that begins inside a character of the name can't be: it would begin with a
  // continuation byte.
  if (is_suffix_) return name.ends_with(literal_);
  return matches_tokens(name);
}

bool Wildcard::matches_tokens(std::string_view name) const {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::size_t token = 0;
  std::size_t star = none;     // the last star seen: only it ever needs to take more
  std::string_view star_rest;  // what followed when it was met
  while (!name.empty()) {
    if (token < tokens_.size() && tokens_[token].kind == Kind::star) {
      star = token++;
      star_rest = name;
      continue;
    }
    std::string_view rest = name;
    if (token < tokens_.size() && accepts(tokens_[token], take_character(rest))) {
      name = rest;
      ++token;
      continue;
    }
    if (star == none) return false;
    take_character(star_rest);
    name = star_rest;
    token = star + 1;
  }
  while (token < tokens_.size() && tokens_[token].kind == Kind::star) ++token;
  return token == tokens_.size();
}

bool any_matches(const std::vector<Wildcard>& wildcards, std::string_view name) {
  return std::ranges::any_of(wildcards, [&](const Wildcard& w) { return w.matches(name); });
}

}  // namespace daiv::agent
