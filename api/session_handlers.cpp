#include <fmt/format.h>

#include "api/api_key.hpp"
#include "api/coercion.hpp"
#include "api/egress_options.hpp"
#include "api/failure.hpp"
#include "api/handlers.hpp"
#include "api/json_body.hpp"
#include "api/json_write.hpp"
#include "api/models.hpp"
#include "sessions/fs_messages.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using sessions::CloseMode;
using sessions::CreateOptions;
using sessions::EgressUpdate;

constexpr std::uint64_t min_memory_bytes = 6U << 20;  // what Docker asks for at least

Response no_content() {
  Response response;
  response.status = 204;
  return response;
}

const Json* given(const Json& body, std::string_view name) {
  const Json* value = body.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void add_environment(const Json& environment, CreateOptions& options) {
  for (const JsonMember& member : *environment.object()) {
    const std::string& value = *member.value.string();
    const std::string quoted = sessions::fs::python_repr(member.name);
    if (member.name.empty())
      throw HttpFailure(400, "environment: a variable's name must not be empty");
    if (member.name.contains('=') || member.name.contains('\0'))
      throw HttpFailure(400,
                        fmt::format("environment: name {} must not contain '=' or NUL", quoted));
    if (value.contains('\0'))
      throw HttpFailure(400,
                        fmt::format("environment: the value of {} must not contain NUL", quoted));
    options.environment.emplace_back(member.name, value);
  }
}

std::uint64_t memory_limit(const Json& value) {
  const std::int64_t bytes = *to_integer(value);
  if (bytes == 0) return 0;
  if (bytes > 0 && static_cast<std::uint64_t>(bytes) >= min_memory_bytes)
    return static_cast<std::uint64_t>(bytes);
  throw HttpFailure(
      400, fmt::format("memory_bytes must be 0 (no limit) or at least {}", min_memory_bytes));
}

CreateOptions create_options(const Context& context, Json& body) {
  CreateOptions options;
  if (const Json* egress = given(body, "egress")) {
    if (!context.service.offers_egress())
      throw HttpFailure(
          400, "egress requires the egress proxy, which is not configured on this deployment");
    options.egress = egress_policy(*egress);
  }
  options.base_image = std::move(*body.find("base_image")->string());
  if (const Json* environment = given(body, "environment")) add_environment(*environment, options);
  if (const Json* memory = given(body, "memory_bytes"))
    options.memory_bytes = memory_limit(*memory);
  if (const Json* cpus = given(body, "cpus")) options.cpus = *to_number(*cpus);
  return options;
}

asio::awaitable<void> create_session(sessions::SessionService& service, CreateOptions options,
                                     std::string& id) {
  id = co_await service.create(std::move(options));
}

bool force_asked(const Exchange& exchange) {
  const std::optional<std::string> text = query_parameter(exchange.target.query, "force");
  if (!text) return false;
  const Json value = Json::text(*text);
  const Schema boolean{.kind = SchemaKind::boolean};
  const std::vector<ValidationError> errors = check_schema(boolean, value, {"query", "force"});
  if (!errors.empty()) refuse(errors);
  return *to_boolean(value);
}

}  // namespace

asio::awaitable<void> handle_create(Context& context, Exchange& exchange) {
  Json body = co_await read_json(context, exchange, start_session_model(),
                                 context.settings.limits.max_json_bytes);
  CreateOptions options = create_options(context, body);
  std::string id;
  bool gone = false;
  try {
    co_await exchange.while_connected(create_session(context.service, std::move(options), id));
  } catch (const ClientGone&) {
    gone = true;
  }
  // Created just as the client left: nobody knows its id.
  if (gone && !id.empty()) co_await context.service.close(id, CloseMode::remove);
  if (gone) throw ClientGone();
  exchange.session_id = id;
  std::string text = R"({"session_id":)";
  append_json_string(text, id);
  text += '}';
  co_await exchange.send(json_response(200, std::move(text)));
}

asio::awaitable<void> handle_touch(Context& context, Exchange& exchange) {
  require_key(check_api_key(exchange.head(), context.settings.api_key));
  const bool exists = co_await context.service.touch(exchange.session_id);
  if (!exists) throw HttpFailure(404, "Session not found or already closed");
  co_await exchange.send(no_content());
}

asio::awaitable<void> handle_close(Context& context, Exchange& exchange) {
  require_key(check_api_key(exchange.head(), context.settings.api_key));
  const CloseMode mode = force_asked(exchange) ? CloseMode::remove : CloseMode::keep_warm;
  co_await context.service.close(exchange.session_id, mode);
  co_await exchange.send(no_content());
}

asio::awaitable<void> handle_egress(Context& context, Exchange& exchange) {
  Json body =
      co_await read_json(context, exchange, egress_model(), context.settings.limits.max_json_bytes);
  if (!context.service.exists(exchange.session_id)) throw HttpFailure(404, "Session not found");
  sessions::EgressPolicy policy = egress_policy(body);
  const EgressUpdate update =
      co_await context.service.update_egress(exchange.session_id, std::move(policy));
  switch (update) {
    case EgressUpdate::done:
      break;
    case EgressUpdate::no_egress:
      throw HttpFailure(409, "Session has no egress proxy; nothing to refresh");
    case EgressUpdate::not_served:
      throw HttpFailure(503, "The session's egress proxy is not running; try again");
  }
  co_await exchange.send(no_content());
}

}  // namespace daiv::api
