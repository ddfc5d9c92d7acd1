#include "api/coercion.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

using Integer = std::expected<std::int64_t, CoercionFault>;
using Number = std::expected<double, CoercionFault>;
using Bounds = std::numeric_limits<std::int64_t>;

// A JSON number that is longer is nothing that anybody meant.
constexpr std::size_t max_number_digits = 255;
// Pydantic takes as long a text as Python does (sys.int_info.default_max_str_digits).
constexpr std::size_t max_text_digits = 4300;

// Unicode's White_Space characters at both ends are passed over, as Rust's str::trim does.
std::string_view trim(std::string_view text) {
  static constexpr std::array<std::string_view, 24> spaces{" ",
                                                           "\t",
                                                           "\n",
                                                           "\v",
                                                           "\f",
                                                           "\r",
                                                           "\xc2\x85",
                                                           "\xc2\xa0",
                                                           "\xe1\x9a\x80",
                                                           "\xe2\x80\x80",
                                                           "\xe2\x80\x81",
                                                           "\xe2\x80\x82",
                                                           "\xe2\x80\x83",
                                                           "\xe2\x80\x84",
                                                           "\xe2\x80\x85",
                                                           "\xe2\x80\x86",
                                                           "\xe2\x80\x87",
                                                           "\xe2\x80\x88",
                                                           "\xe2\x80\x89",
                                                           "\xe2\x80\x8a",
                                                           "\xe2\x80\xa8",
                                                           "\xe2\x80\xa9",
                                                           "\xe2\x80\xaf",
                                                           "\xe3\x80\x80"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view space : spaces) {
      if (text.starts_with(space)) {
        text.remove_prefix(space.size());
        again = true;
      }
      if (text.ends_with(space)) {
        text.remove_suffix(space.size());
        again = true;
      }
    }
  }
  return text;
}

// Drops the underscores of "1_000"; false where one does not stand between two digits.
bool drop_underscores(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool inside =
        i > 0 && i + 1 < text.size() && wire::is_digit(text[i - 1]) && wire::is_digit(text[i + 1]);
    if (!inside) return false;
  }
  return true;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), wire::is_digit);
}

// `digits` with an optional minus sign, which is known to be a whole number; nothing beyond 64
// bits.
std::optional<std::int64_t> parse_digits(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Integer saturate(std::string_view digits, std::size_t max_digits) {
  const bool negative = digits.starts_with('-');
  if (digits.size() > max_digits + (negative ? 1 : 0))
    return std::unexpected(negative ? CoercionFault::negative_size
                                    : CoercionFault::int_parsing_size);
  return parse_digits(digits).value_or(negative ? Bounds::min() : Bounds::max());
}

// "5.0" and "5.000" are whole, "5." is not.
std::string_view drop_zero_fraction(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos || point + 1 == text.size()) return text;
  const bool zero = text.find_first_not_of('0', point + 1) == std::string_view::npos;
  return zero ? text.substr(0, point) : text;
}

Integer parse_integer(std::string_view text) {
  std::string plain;
  text = trim(text);
  if (text.size() > max_text_digits) return std::unexpected(CoercionFault::int_parsing_size);
  if (!drop_underscores(drop_zero_fraction(text), plain))
    return std::unexpected(CoercionFault::int_parsing);
  std::string_view digits = plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (!all_digits(digits)) return std::unexpected(CoercionFault::int_parsing);
  return saturate((negative ? "-" : "") + std::string(digits), max_text_digits);
}

Integer whole(double value) {
  if (!std::isfinite(value)) return std::unexpected(CoercionFault::finite_number);
  if (value != std::trunc(value)) return std::unexpected(CoercionFault::int_from_float);
  // 2^63: the first double that int64_t does not hold.
  constexpr double limit = 9223372036854775808.0;
  if (value >= limit) return std::unexpected(CoercionFault::int_parsing_size);
  if (value < -limit) return std::unexpected(CoercionFault::int_parsing_size);
  return static_cast<std::int64_t>(value);
}

Number parse_number(std::string_view text) {
  std::string plain;
  if (!drop_underscores(trim(text), plain)) return std::unexpected(CoercionFault::float_parsing);
  std::string_view digits = plain;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with("+") || (plain.starts_with('+') && digits.starts_with('-')))
    return std::unexpected(CoercionFault::float_parsing);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool read_all =
      end == digits.data() + digits.size() && !digits.ends_with('(') && !digits.ends_with(')');
  if (error == std::errc::invalid_argument || !read_all)
    return std::unexpected(CoercionFault::float_parsing);
  if (error == std::errc::result_out_of_range) {
    const std::size_t e = digits.find_first_of("eE");
    const bool tiny = e != std::string_view::npos && digits[e + 1] == '-';
    if (tiny) return 0.0;
    return std::unexpected(CoercionFault::finite_number);
  }
  if (!std::isfinite(value)) return std::unexpected(CoercionFault::finite_number);
  return value;
}

std::expected<bool, CoercionFault> parse_boolean(const std::string& text) {
  const std::string word = wire::lower(text);
  for (const std::string_view yes : {"1", "on", "t", "true", "y", "yes"})
    if (word == yes) return true;
  for (const std::string_view no : {"0", "off", "f", "false", "n", "no"})
    if (word == no) return false;
  return std::unexpected(CoercionFault::bool_parsing);
}

std::expected<bool, CoercionFault> zero_or_one(std::int64_t value) {
  if (value == 0 || value == 1) return value == 1;
  return std::unexpected(CoercionFault::bool_parsing);
}

}  // namespace

std::expected<bool, CoercionFault> to_boolean(const Json& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const std::string* text = value.string()) return parse_boolean(*text);
  std::optional<std::int64_t> number;
  if (const JsonInteger* integer = value.integer()) number = parse_digits(integer->digits);
  if (const double* real = value.number()) {
    if (const Integer exact = whole(*real)) number = *exact;
  }
  if (!number) return std::unexpected(CoercionFault::bool_type);
  return zero_or_one(*number);
}

std::expected<std::int64_t, CoercionFault> to_integer(const Json& value) {
  if (const bool* boolean = value.boolean()) return *boolean ? 1 : 0;
  if (const JsonInteger* integer = value.integer())
    return saturate(integer->digits, max_number_digits);
  if (const double* real = value.number()) return whole(*real);
  if (const std::string* text = value.string()) return parse_integer(*text);
  return std::unexpected(CoercionFault::int_type);
}

std::expected<double, CoercionFault> to_number(const Json& value) {
  if (const bool* boolean = value.boolean()) return *boolean ? 1.0 : 0.0;
  if (const double* real = value.number()) return *real;
  if (const std::string* text = value.string()) return parse_number(*text);
  const JsonInteger* integer = value.integer();
  if (integer == nullptr) return std::unexpected(CoercionFault::float_type);
  const Number number = parse_number(integer->digits);
  if (!number) return std::unexpected(CoercionFault::finite_number);
  return *number;
}

}  // namespace daiv::api
