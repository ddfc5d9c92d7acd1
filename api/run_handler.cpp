#include <algorithm>

#include "api/coercion.hpp"
#include "api/failure.hpp"
#include "api/handlers.hpp"
#include "api/json_body.hpp"
#include "api/json_write.hpp"
#include "api/models.hpp"
#include "api/utf8.hpp"
#include "sessions/on_pool.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using sessions::CommandResult;
using sessions::Output;
using sessions::RunOptions;

constexpr std::size_t piece_bytes = 256U << 10;      // of an output, read and escaped at a time
constexpr std::uint64_t in_memory_bytes = 1U << 20;  // larger outputs are read on the pool
// Longer times can't be told from none, and would overflow deadlines in nanoseconds.
constexpr std::int64_t max_timeout_seconds = 10LL * 365 * 24 * 3600;

RunOptions run_options(Json& body) {
  RunOptions options;
  for (Json& command : *body.find("commands")->array())
    options.commands.push_back(std::move(*command.string()));
  if (const Json* fail_fast = body.find("fail_fast")) options.fail_fast = *to_boolean(*fail_fast);
  const Json* timeout = body.find("timeout");
  if (timeout != nullptr && !timeout->is_null())
    options.timeout = std::chrono::seconds(std::min(*to_integer(*timeout), max_timeout_seconds));
  return options;
}

asio::awaitable<void> run_commands(sessions::SessionService& service, std::string id,
                                   RunOptions options, std::vector<CommandResult>& results) {
  results = co_await service.run(std::move(id), std::move(options));
}

asio::awaitable<std::string> read_piece(Context& context, const Output& output,
                                        std::uint64_t offset) {
  if (output.size() <= in_memory_bytes) co_return output.read(offset, piece_bytes);
  const auto read = [&output, offset] { return output.read(offset, piece_bytes); };
  std::string piece = co_await sessions::on_pool(context.pool, read);
  co_return piece;
}

asio::awaitable<void> write_escaped(Exchange& exchange, const std::string& text) {
  std::string escaped;
  append_json_escaped(escaped, text);
  co_await exchange.write(escaped);
}

// The output's bytes as the inside of a JSON string. Held at any time: one piece, at most six times
// as long escaped.
asio::awaitable<void> write_output(Context& context, Exchange& exchange, const Output& output) {
  Utf8Replacer replacer;
  const std::uint64_t size = output.size();
  std::uint64_t offset = 0;
  while (offset < size) {
    const std::string piece = co_await read_piece(context, output, offset);
    if (piece.empty()) break;
    offset += piece.size();
    std::string text;
    replacer.append(text, piece);
    co_await write_escaped(exchange, text);
  }
  std::string rest;
  replacer.finish(rest);
  co_await exchange.write(rest);
}

asio::awaitable<void> write_result(Context& context, Exchange& exchange,
                                   const CommandResult& result) {
  std::string head = R"({"command":)";
  append_json_string(head, result.command);
  head += R"(,"output":")";
  co_await exchange.write(head);
  if (result.output) co_await write_output(context, exchange, *result.output);
  const std::string tail = R"(","exit_code":)" + std::to_string(result.exit_code) + "}";
  co_await exchange.write(tail);
}

}  // namespace

asio::awaitable<void> handle_run(Context& context, Exchange& exchange) {
  RunOptions options = co_await read_json_as(context, exchange, run_model(),
                                             context.settings.limits.max_run_bytes, run_options);
  std::vector<CommandResult> results;
  co_await exchange.while_connected(
      run_commands(context.service, exchange.session_id, std::move(options), results));
  exchange.start(json_response(200, ""));
  co_await exchange.write(R"({"results":[)");
  bool first = true;
  for (CommandResult& result : results) {
    if (!first) co_await exchange.write(",");
    first = false;
    co_await write_result(context, exchange, result);
    result.output.reset();
  }
  co_await exchange.write("]}");
  co_await exchange.finish();
}

}  // namespace daiv::api
