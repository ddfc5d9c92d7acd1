#include <fmt/format.h>

#include "api/assets.hpp"
#include "api/failure.hpp"
#include "api/handlers.hpp"
#include "api/json_write.hpp"

namespace daiv::api {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// The document is complete but for what the settings say.
std::string describe_interface(const ServerSettings& settings) {
  std::string document(openapi_document);
  const auto fill = [&document](std::string_view place, const std::string& value) {
    const std::size_t at = document.find(place);
    if (at != std::string::npos) document.replace(at, place.size(), value);
  };
  fill("\"@version@\"", json_string(settings.version));
  fill("\"@prefix@\"", json_string(settings.prefix.empty() ? "/" : settings.prefix));
  return document;
}

Response text_response(std::string_view content_type, std::string body) {
  Response response;
  response.content_type = content_type;
  response.body = std::move(body);
  return response;
}

std::string expose_metrics(Context& context) {
  std::string out = context.metrics.expose(context.service.counts());
  context.operations.expose(out);
  if (context.extensions.more_metrics) out += context.extensions.more_metrics();
  return out;
}

Response answer(Context& context, RouteId route) {
  switch (route) {
    case RouteId::health:
      return json_response(200, R"({"status":"ok"})");
    case RouteId::version:
      return json_response(
          200, fmt::format(R"({{"version":{}}})", json_string(context.settings.version)));
    case RouteId::openapi:
      return json_response(200, describe_interface(context.settings));
    case RouteId::metrics:
      return text_response("text/plain; version=0.0.4; charset=utf-8", expose_metrics(context));
    case RouteId::docs:
    case RouteId::create:
    case RouteId::run:
    case RouteId::touch:
    case RouteId::close:
    case RouteId::seed:
    case RouteId::egress:
    case RouteId::fs_ls:
    case RouteId::fs_read:
    case RouteId::fs_grep:
    case RouteId::fs_glob:
    case RouteId::fs_write:
    case RouteId::fs_edit:
    case RouteId::fs_delete:
      break;
  }
  Response page = text_response("text/html; charset=utf-8", std::string(docs_page));
  // The page holds a key that its reader types in: no other site may frame it, and it loads nothing
  // from elsewhere.
  page.fields = {{"content-security-policy",
                  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                  "connect-src 'self'; "
                  "frame-ancestors 'none'"}};
  return page;
}

}  // namespace

boost::asio::awaitable<void> handle_open_route(Context& context, Exchange& exchange) {
  Response response = answer(context, exchange.route->id);
  co_await exchange.send(std::move(response));
}

}  // namespace daiv::api
