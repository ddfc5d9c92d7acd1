#include "api/json_body.hpp"

#include <algorithm>

#include "api/failure.hpp"
#include "api/json_decode.hpp"
#include "api/json_write.hpp"
#include "api/utf8.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;

// Above the first size a body is read on the pool, above the second where only such are.
constexpr std::size_t small_body_bytes = 64U << 10;
constexpr std::size_t large_body_bytes = 1U << 20;

// As email.message.Message tells the type of application/json, application/*+json and others.
bool is_json_type(std::optional<std::string_view> content_type) {
  if (!content_type) return false;
  const std::string_view type = wire::trim(content_type->substr(0, content_type->find(';')));
  const std::size_t slash = type.find('/');
  if (slash == std::string_view::npos || type.find('/', slash + 1) != std::string_view::npos)
    return false;
  if (!wire::equal_ignoring_case(type.substr(0, slash), "application")) return false;
  const std::string_view subtype = type.substr(slash + 1);
  return wire::equal_ignoring_case(subtype, "json") ||
         (subtype.size() >= 5 &&
          wire::equal_ignoring_case(subtype.substr(subtype.size() - 5), "+json"));
}

[[noreturn]] void refuse_text(const JsonFault& fault) {
  if (fault.kind == JsonFault::Kind::unreadable)
    throw HttpFailure(400, "There was an error parsing the body");
  const Json empty{Json::Value(Json::Object())};
  ValidationError error;
  error.type = "json_invalid";
  error.location = {"body", fault.position};
  error.message = "JSON decode error";
  error.input = &empty;
  error.context = R"({"error":)";
  append_json_string(error.context, fault.reason);
  error.context += '}';
  refuse({&error, 1});
}

void check_fields(const Schema& schema, const Json& body) {
  if (body.is_null()) {
    ValidationError error;
    error.type = "missing";
    error.location = {"body"};
    error.message = "Field required";
    refuse({&error, 1});
  }
  const std::vector<ValidationError> errors = check_schema(schema, body, {"body"});
  if (!errors.empty()) refuse(errors);
}

}  // namespace

void refuse(std::span<const ValidationError> errors) {
  throw HttpFailure(json_response(422, validation_answer(errors)));
}

asio::awaitable<ReceivedBody> receive_body(Context& context, Exchange& exchange,
                                           const Schema& schema, std::uint64_t limit) {
  ReceivedBody body;
  body.key = check_api_key(exchange.head(), context.settings.api_key);
  body.schema = &schema;
  body.is_json = is_json_type(exchange.head().find("Content-Type"));
  const std::uint64_t unauthorised = context.settings.limits.max_unauthorised_bytes;
  if (body.key != KeyVerdict::right) {
    if (exchange.head().content_length.value_or(0) > unauthorised) require_key(body.key);
    limit = std::min(limit, unauthorised);
  }
  body.text = co_await exchange.read_body(limit);
  co_return body;
}

Json parse_body(ReceivedBody body) {
  Json value;
  if (!body.text.empty() && body.is_json) {
    auto decoded = decode_json(body.text);
    if (!decoded) refuse_text(decoded.error());
    value = *std::move(decoded);
  } else if (!body.text.empty()) {
    value = Json::text(replace_invalid_utf8(body.text));
  }
  body.text = std::string();  // the value may be as large again
  require_key(body.key);
  check_fields(*body.schema, value);
  return value;
}

asio::thread_pool* pool_for_body(const Context& context, std::size_t bytes) {
  if (bytes <= small_body_bytes) return nullptr;
  return bytes <= large_body_bytes ? &context.pool : &context.large_bodies;
}

asio::awaitable<Json> read_json(Context& context, Exchange& exchange, const Schema& schema,
                                std::uint64_t limit) {
  const auto whole = [](Json& body) { return std::move(body); };
  Json body = co_await read_json_as(context, exchange, schema, limit, whole);
  co_return body;
}

}  // namespace daiv::api
