#include <stdexcept>

#include "api/failure.hpp"
#include "api/fs_json.hpp"
#include "api/handlers.hpp"
#include "api/json_body.hpp"
#include "api/models.hpp"
#include "sessions/on_pool.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
namespace fs = sessions::fs;

struct Operation {
  const Schema& schema;
  bool carries_content;  // its body may be as large as a file
};

Operation operation_of(RouteId route) {
  if (route == RouteId::fs_read) return {fs_read_model(), false};
  if (route == RouteId::fs_grep) return {fs_grep_model(), false};
  if (route == RouteId::fs_glob) return {fs_glob_model(), false};
  if (route == RouteId::fs_write) return {fs_write_model(), true};
  if (route == RouteId::fs_edit) return {fs_edit_model(), true};
  if (route == RouteId::fs_delete) return {fs_delete_model(), false};
  return {fs_ls_model(), false};
}

// Above this size a reply is converted on the pool.
constexpr std::size_t small_bytes = 64U << 10;

// A request as the session gets it, or why it does not.
struct Call {
  fs::FsOperation operation;
  std::optional<fs::FsError> refused;
  std::string payload;
};

// The path is judged before the session is looked up, as the Docker variant does it.
Call make_call(RouteId route, Json& body) {
  const fs::FsRequest request = fs_request(route, body);
  Call call{fs_operation(request), check_request_path(request), ""};
  if (!call.refused) call.payload = fs::encode_fs_request(request);
  return call;
}

asio::awaitable<void> call(sessions::SessionService& service, std::string id, std::string request,
                           std::string& reply) {
  reply = co_await service.fs(std::move(id), std::move(request));
}

// Decodes what a session answered. It may be hostile: an answer to another question is one.
struct ReplyText {
  std::string payload;
  fs::FsOperation operation;

  std::string operator()() const {
    const fs::FsReply reply = fs::decode_fs_reply(payload);
    if (reply.index() + 1 != static_cast<std::size_t>(operation))
      throw std::runtime_error("the session answered another file operation than was asked for");
    return fs_reply_json(reply);
  }
};

}  // namespace

asio::awaitable<void> handle_fs(Context& context, Exchange& exchange) {
  const Limits& limits = context.settings.limits;
  const Operation operation = operation_of(exchange.route->id);
  const std::uint64_t limit =
      operation.carries_content ? limits.max_file_bytes : limits.max_json_bytes;
  const auto convert = [route = exchange.route->id](Json& body) { return make_call(route, body); };
  Call asked = co_await read_json_as(context, exchange, operation.schema, limit, convert);
  if (asked.refused) {
    Response refused =
        json_response(200, fs_reply_json(failed_reply(asked.operation, *std::move(asked.refused))));
    co_await exchange.send(std::move(refused));
    co_return;
  }
  std::string reply;
  co_await exchange.while_connected(
      call(context.service, exchange.session_id, std::move(asked.payload), reply));
  const bool large = reply.size() > small_bytes;
  ReplyText to_text{std::move(reply), asked.operation};
  std::string text;
  if (large) {
    text = co_await sessions::on_pool(context.pool, std::move(to_text));
  } else {
    text = to_text();
  }
  co_await exchange.send(json_response(200, std::move(text)));
}

}  // namespace daiv::api
