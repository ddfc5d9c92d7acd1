#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Shell wildcards on one name: "*", "?" and "[...]", by character of UTF-8, where a byte that is no
// UTF-8 counts as a character of its own. A leading dot is nothing special. An unclosed "[" means
// itself.
namespace daiv::agent {

// How the two sources of patterns differ: `shell` (grep's glob, exclude, prune list) is fnmatch(3),
// with backslash as escape, "[^" and "[:alpha:]"; `glob` (the glob operation) has neither, as in
// Python's fnmatch.
enum class WildcardFlavour { shell, glob };

class Wildcard {
public:
  Wildcard(std::string_view pattern, WildcardFlavour flavour);

  // Whether the whole of `name` matches. Time is bounded by the product of both lengths.
  [[nodiscard]] bool matches(std::string_view name) const;

private:
  enum class Kind : std::uint8_t { character, any, star, set };
  struct Token {
    Kind kind = Kind::character;
    std::uint32_t character = 0;
    bool negated = false;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges = {};
    std::vector<std::string> classes = {};
  };

  static bool accepts(const Token& token, std::uint32_t character);
  static bool parse_set(const std::vector<std::uint32_t>& pattern, std::size_t& at,
                        WildcardFlavour flavour, Token& token);
  [[nodiscard]] bool matches_tokens(std::string_view name) const;

  std::vector<Token> tokens_;
  // The common shapes "name" and "*suffix", which need no decoding.
  bool is_literal_ = false;
  bool is_suffix_ = false;
  std::string literal_;
};

// Whether one of `wildcards` matches.
bool any_matches(const std::vector<Wildcard>& wildcards, std::string_view name);

}  // namespace daiv::agent
