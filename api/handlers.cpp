#include "api/handlers.hpp"

namespace daiv::api {

boost::asio::awaitable<void> handle(Context& context, Exchange& exchange) {
  switch (exchange.route->id) {
    case RouteId::health:
    case RouteId::version:
    case RouteId::openapi:
    case RouteId::docs:
    case RouteId::metrics:
      return handle_open_route(context, exchange);
    case RouteId::create:
      return handle_create(context, exchange);
    case RouteId::run:
      return handle_run(context, exchange);
    case RouteId::touch:
      return handle_touch(context, exchange);
    case RouteId::close:
      return handle_close(context, exchange);
    case RouteId::seed:
      return handle_seed(context, exchange);
    case RouteId::egress:
      return handle_egress(context, exchange);
    case RouteId::fs_ls:
    case RouteId::fs_read:
    case RouteId::fs_grep:
    case RouteId::fs_glob:
    case RouteId::fs_write:
    case RouteId::fs_edit:
    case RouteId::fs_delete:
      return handle_fs(context, exchange);
  }
  return handle_open_route(context, exchange);
}

}  // namespace daiv::api
