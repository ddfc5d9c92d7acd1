#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Bracket expressions of POSIX ("[^a-z[:space:]]") as PCRE2 classes that never match LF. Part of
// the translation of patterns (agent/fs_pattern.hpp).
namespace daiv::agent {

struct Bracket {
  std::string pcre;
  std::size_t length = 0;  // bytes of the pattern that it stands for
};

// Translates the bracket expression at the beginning of `pattern`, whose first byte is "[".
// Nothing where it does not end, has a range that is out of order, or names an unknown class.
std::optional<Bracket> translate_bracket(std::string_view pattern);

// Appends one character (UTF-8) so that PCRE2 takes it as itself, inside and outside of classes.
void append_literal(std::string& pcre, std::string_view character);

}  // namespace daiv::agent
