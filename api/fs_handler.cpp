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

// Above this size of a request or reply, it is converted on the pool.
constexpr std::size_t small_bytes = 128U << 10;

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

// The path is judged before the session is looked up, as the Docker variant does it.
asio::awaitable<void> handle_fs(Context& context, Exchange& exchange) {
  const Limits& limits = context.settings.limits;
  const Operation operation = operation_of(exchange.route->id);
  Json body =
      co_await read_json(context, exchange, operation.schema,
                         operation.carries_content ? limits.max_file_bytes : limits.max_json_bytes);
  fs::FsRequest request = fs_request(exchange.route->id, body);
  body = Json();
  const fs::FsOperation kind = fs_operation(request);
  if (std::optional<fs::FsError> error = check_request_path(request)) {
    Response refused = json_response(200, fs_reply_json(failed_reply(kind, *std::move(error))));
    co_await exchange.send(std::move(refused));
    co_return;
  }
  std::string payload = fs::encode_fs_request(request);
  request = fs::LsRequest();  // its content is in the payload
  std::string reply;
  co_await exchange.while_connected(
      call(context.service, exchange.session_id, std::move(payload), reply));
  const bool large = reply.size() > small_bytes;
  ReplyText to_text{std::move(reply), kind};
  std::string text;
  if (large) {
    text = co_await sessions::on_pool(context.pool, std::move(to_text));
  } else {
    text = to_text();
  }
  co_await exchange.send(json_response(200, std::move(text)));
}

}  // namespace daiv::api
