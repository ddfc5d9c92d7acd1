#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// A JSON value as Python's json module sees one: whole numbers of any size, objects in the order of
// the text.
namespace daiv::api {

// A whole number as its decimal digits: "0", "-17", never "-0" or leading zeros.
struct JsonInteger {
  std::string digits;
  bool operator==(const JsonInteger&) const = default;
};

struct JsonNull {
  bool operator==(const JsonNull&) const = default;
};

struct JsonMember;

class Json {
public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // names are unique
  using Value = std::variant<JsonNull, bool, JsonInteger, double, std::string, Array, Object>;

  // Defined below, where JsonMember is complete.
  Json() noexcept;
  explicit Json(Value value);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json text(std::string_view text);

  [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<JsonNull>(value_); }
  // The value as this type, or null where it is of another.
  [[nodiscard]] const bool* boolean() const noexcept { return std::get_if<bool>(&value_); }
  [[nodiscard]] const JsonInteger* integer() const noexcept {
    return std::get_if<JsonInteger>(&value_);
  }
  [[nodiscard]] const double* number() const noexcept { return std::get_if<double>(&value_); }
  [[nodiscard]] const std::string* string() const noexcept {
    return std::get_if<std::string>(&value_);
  }
  [[nodiscard]] std::string* string() noexcept { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const Array* array() const noexcept { return std::get_if<Array>(&value_); }
  [[nodiscard]] Array* array() noexcept { return std::get_if<Array>(&value_); }
  [[nodiscard]] const Object* object() const noexcept { return std::get_if<Object>(&value_); }
  // The member of this name; null where this is no object or has none.
  [[nodiscard]] const Json* find(std::string_view name) const noexcept;
  [[nodiscard]] Json* find(std::string_view name) noexcept;
  [[nodiscard]] const Value& value() const noexcept { return value_; }

private:
  Value value_;
};

struct JsonMember {
  std::string name;
  Json value;
};

inline Json::Json() noexcept = default;
inline Json::Json(Value value) : value_(std::move(value)) {}
inline Json::Json(const Json& other) = default;
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(const Json& other) = default;
inline Json& Json::operator=(Json&& other) noexcept = default;
inline Json::~Json() = default;
inline Json Json::text(std::string_view text) { return Json(Value(std::string(text))); }

inline const Json* Json::find(std::string_view name) const noexcept {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  for (const JsonMember& member : *members)
    if (member.name == name) return &member.value;
  return nullptr;
}

inline Json* Json::find(std::string_view name) noexcept {
  return const_cast<Json*>(static_cast<const Json*>(this)->find(name));
}

}  // namespace daiv::api
