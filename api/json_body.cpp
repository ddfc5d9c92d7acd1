#include "api/json_body.hpp"

#include <boost/asio/use_awaitable.hpp>

#include "api/api_key.hpp"
#include "api/failure.hpp"
#include "api/json_decode.hpp"
#include "api/json_write.hpp"
#include "api/utf8.hpp"
#include "sessions/on_pool.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;

// Above this size a body is decoded and checked on the pool.
constexpr std::size_t small_body_bytes = 128U << 10;

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

struct BodyWork {
  std::string text;
  bool is_json;
  KeyVerdict key;
  const Schema* schema;

  Json operator()() {
    Json body;
    if (!text.empty() && is_json) {
      auto decoded = decode_json(text);
      if (!decoded) refuse_text(decoded.error());
      body = *std::move(decoded);
    } else if (!text.empty()) {
      body = Json::text(replace_invalid_utf8(text));
    }
    text = std::string();  // the value may be as large again
    require_key(key);
    check_fields(*schema, body);
    return body;
  }
};

}  // namespace

void refuse(std::span<const ValidationError> errors) {
  throw HttpFailure(json_response(422, validation_answer(errors)));
}

asio::awaitable<Json> read_json(Context& context, Exchange& exchange, const Schema& schema,
                                std::uint64_t limit) {
  const KeyVerdict key = check_api_key(exchange.head(), context.settings.api_key);
  const std::uint64_t unauthorised = context.settings.limits.max_unauthorised_bytes;
  if (key != KeyVerdict::right) {
    if (exchange.head().content_length.value_or(0) > unauthorised) require_key(key);
    limit = std::min(limit, unauthorised);
  }
  std::string text = co_await exchange.read_body(limit);
  const bool large = text.size() > small_body_bytes;
  BodyWork work{std::move(text), is_json_type(exchange.head().find("Content-Type")), key, &schema};
  if (!large) co_return work();
  Json body = co_await sessions::on_pool(context.pool, std::move(work));
  co_return body;
}

}  // namespace daiv::api
