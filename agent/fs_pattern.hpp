#pragma once

#include <optional>
#include <string>
#include <string_view>

// Translates the expressions of grep -E (POSIX extended, GNU additions) to PCRE2. Pure.
namespace daiv::agent {

struct TranslatedPattern {
  std::string pcre;
  // Text that every matching line holds; empty where none is known.
  std::string literal;
  bool is_literal = false;  // the pattern is that text and nothing else
  bool has_back_reference = false;
};

// Nothing where the expression is meaningless: unbalanced "(" or "[", a repetition of nothing
// ("*a", "a|+"), bounds that are out of order or above 32767, an unknown class, a reference to a
// group that has not ended, a "\" at the end.
//
// As POSIX and GNU grep have it: back-references, "\b \B \< \> \w \W \s \S", "\`" and "\'" (ends of
// the line), a "{" that begins no bound and a ")" without "(" mean themselves, a line end in the
// pattern separates alternatives. As everyone expects: "\d \D \t \r \f \v" (these, "\w" and "\s"
// also within "[...]", where other backslashes are plain characters as in POSIX), "(?:...)",
// "(?i)", "(?i:...)". A repetition of a repetition is never lazy or possessive.
//
// The result is for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX with LF as line
// end; nothing of it ever matches LF, so a match lies within one line.
std::optional<TranslatedPattern> translate_pattern(std::string_view pattern);

}  // namespace daiv::agent
