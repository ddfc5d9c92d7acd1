#include "cli/control_commands.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "cli/control_protocol.hpp"
#include "cli/control_server.hpp"
#include "cli/egress_log_control.hpp"

namespace asio = boost::asio;
using nlohmann::json;

namespace daiv::cli {
namespace {

std::int64_t to_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

json describe(const images::Image& image) {
  return {{"id", image.id},
          {"reference", image.reference},
          {"layers", image.layers.size()},
          {"unpacked_bytes", image.unpacked_bytes},
          {"last_used", to_seconds(image.last_used)}};
}

json describe(const sessions::SessionRecord& record) {
  const bool running = record.state == sessions::SessionState::running;
  json entry = {{"id", record.id},
                {"image", record.image_reference},
                {"state", running ? "running" : "stopped"},
                {"created", to_seconds(record.created)},
                {"last_used", to_seconds(record.last_used)},
                {"memory_bytes", record.limits.memory_bytes},
                {"cpus", static_cast<double>(record.limits.cpu_millis) / 1000}};
  if (!running) entry["stopped"] = to_seconds(record.stopped);
  return entry;
}

[[noreturn]] void rethrow(const images::ImageError& error) {
  switch (error.failure()) {
    case images::ImageFailure::not_found:
      throw ControlFailure(exit_not_found, error.what());
    case images::ImageFailure::unreachable:
    case images::ImageFailure::rate_limited:
    case images::ImageFailure::no_space:
      throw ControlFailure(exit_unavailable, error.what());
    case images::ImageFailure::invalid_reference:
    case images::ImageFailure::denied:
    case images::ImageFailure::wrong_platform:
    case images::ImageFailure::invalid_image:
    case images::ImageFailure::blocked:
    case images::ImageFailure::cancelled:
    case images::ImageFailure::internal:
      break;
  }
  throw ControlFailure(exit_failed, error.what());
}

[[noreturn]] void rethrow(const sessions::SessionError& error) {
  switch (error.failure()) {
    case sessions::SessionFailure::not_found:
      throw ControlFailure(exit_not_found, error.what());
    case sessions::SessionFailure::busy:
    case sessions::SessionFailure::unavailable:
      throw ControlFailure(exit_unavailable, error.what());
    case sessions::SessionFailure::already_seeded:
    case sessions::SessionFailure::bad_request:
    case sessions::SessionFailure::invalid_seed:
    case sessions::SessionFailure::too_large:
      break;
  }
  throw ControlFailure(exit_failed, error.what());
}

const char* describe(images::PullEvent::Stage stage) {
  switch (stage) {
    case images::PullEvent::Stage::resolving:
      return "resolving";
    case images::PullEvent::Stage::waiting:
      return "waiting";
    case images::PullEvent::Stage::downloading:
      return "downloading";
    case images::PullEvent::Stage::unpacking:
      return "unpacking";
    case images::PullEvent::Stage::done:
      return "done";
    case images::PullEvent::Stage::exists:
      return "exists";
  }
  return "";
}

// Sends what happens to the client, a few times a second for each layer at most: observers must not
// hold up a pull.
class Progress {
public:
  explicit Progress(const os::UniqueFd& client) : client_(client) {}

  void tell(const images::PullEvent& event) {
    const std::scoped_lock lock(mutex_);
    Last& last = last_[event.layer];
    const auto now = std::chrono::steady_clock::now();
    if (last.stage == event.stage && now - last.sent < interval) return;
    last = {event.stage, now};
    json message = {{"event", describe(event.stage)},
                    {"layer", event.layer},
                    {"bytes", event.bytes},
                    {"total_bytes", event.total_bytes}};
    const std::string text = 'J' + message.dump();
    // A client that does not read misses some; one that has gone is noticed at the end.
    static_cast<void>(::send(client_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }

private:
  static constexpr std::chrono::milliseconds interval{100};
  struct Last {
    std::optional<images::PullEvent::Stage> stage;
    std::chrono::steady_clock::time_point sent;
  };
  const os::UniqueFd& client_;
  std::mutex mutex_;
  std::map<std::string, Last> last_;
};

// Requests a stop as soon as the client hangs up.
class HangUpWatch {
public:
  explicit HangUpWatch(const os::UniqueFd& client)
      : thread_([this, &client](const std::stop_token& done) {
          while (!done.stop_requested()) {
            if (!hung_up(client, std::chrono::milliseconds(200))) continue;
            source_.request_stop();
            return;
          }
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

private:
  std::stop_source source_;
  std::jthread thread_;
};

// Runs a call of the session service on the io thread and waits for it here; a client that hangs up
// cancels it.
template <typename Value>
Value await_call(const asio::any_io_executor& executor, const os::UniqueFd* client,
                 asio::awaitable<Value> call) {
  const auto signal = std::make_shared<asio::cancellation_signal>();  // shared with a cancellation
                                                                      // on its way to the io thread
  auto future = asio::co_spawn(executor, std::move(call),
                               asio::bind_cancellation_slot(signal->slot(), asio::use_future));
  bool cancelled = false;
  while (client != nullptr && !cancelled &&
         future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (!hung_up(*client, std::chrono::milliseconds(5))) continue;
    cancelled = true;
    asio::post(executor, [signal] { signal->emit(asio::cancellation_type::terminal); });
  }
  try {
    return future.get();
  } catch (const sessions::SessionError& error) {
    rethrow(error);
  }
}

void send_all(const os::UniqueFd& client, const sessions::Output& output) {
  for (std::uint64_t offset = 0; offset < output.size();) {
    const std::string chunk = output.read(offset, output_chunk_bytes);
    if (chunk.empty()) return;
    send_output(client, chunk);
    offset += chunk.size();
  }
}

}  // namespace

ControlCommands::ControlCommands(images::ImageService& images, PullMetrics& pulls,
                                 sessions::NativeSessions& sessions, runtime::BrokerClient& broker,
                                 EgressLog* egress_log, asio::any_io_executor executor)
    : images_(images),
      pulls_(pulls),
      sessions_(sessions),
      broker_(broker),
      egress_log_(egress_log),
      executor_(std::move(executor)) {}

json ControlCommands::carry_out(const os::UniqueFd& client, const json& request,
                                std::vector<os::UniqueFd> fds) {
  const std::string command = request.at("command");
  try {
    if (command == "pull") return pull(client, request);
    if (command == "load") return load(client, std::move(fds));
    if (command == "images") return list_images();
    if (command == "prune") return prune(request);
    if (command == "ps") return list_sessions();
    if (command == "exec") return exec(client, request);
    if (command == "rm") return remove(request);
    if (command == "egress_log") return show_egress_log(client, request);
    if (command == "probe") return probe();
  } catch (const images::ImageError& error) {
    rethrow(error);
  }
  throw ControlFailure(exit_usage,
                       fmt::format("this daemon does not know the command {:?}", command));
}

json ControlCommands::pull(const os::UniqueFd& client, const json& request) {
  Progress progress(client);
  const HangUpWatch watch(client);
  const std::string reference = request.at("reference");
  const auto ensure = [&](const images::PullObserver& observer) {
    return images_.ensure(reference, images::PullPolicy::always, observer, watch.token());
  };
  return describe(
      pulls_.watch([&](const images::PullEvent& event) { progress.tell(event); }, ensure));
}

json ControlCommands::load(const os::UniqueFd& client, std::vector<os::UniqueFd> fds) {
  if (fds.size() != 1)
    throw ControlFailure(exit_usage, "load: exactly one descriptor must come along");
  Progress progress(client);
  const HangUpWatch watch(client);
  json loaded = json::array();
  const auto images = images_.load(
      fds.front(), [&](const images::PullEvent& event) { progress.tell(event); }, watch.token());
  for (const auto& image : images) loaded.push_back(describe(image));
  return loaded;
}

json ControlCommands::list_images() {
  json listed = json::array();
  for (const auto& image : images_.list()) listed.push_back(describe(image));
  return listed;
}

json ControlCommands::prune(const json& request) {
  const auto scope = request.value("all", false)
                         ? images::ImageService::PruneScope::unused_images
                         : images::ImageService::PruneScope::unreferenced_layers;
  const auto report = images_.prune(scope, [this] { return sessions_.layers_in_use(); });
  return {
      {"images", report.images}, {"layers", report.layers}, {"freed_bytes", report.freed_bytes}};
}

json ControlCommands::list_sessions() {
  std::promise<std::vector<sessions::SessionRecord>> promise;
  asio::post(executor_, [&] { promise.set_value(sessions_.list()); });
  json listed = json::array();
  for (const auto& record : promise.get_future().get()) listed.push_back(describe(record));
  return listed;
}

json ControlCommands::exec(const os::UniqueFd& client, const json& request) {
  sessions::RunOptions options;
  options.commands.push_back(request.at("shell"));
  if (request.contains("timeout"))
    options.timeout = std::chrono::seconds(request.at("timeout").get<std::uint32_t>());
  const std::string id = request.at("session");
  auto results = await_call(executor_, &client, sessions_.run(id, std::move(options)));
  send_all(client, *results.at(0).output);
  return {{"exit_code", results.at(0).exit_code}};
}

json ControlCommands::remove(const json& request) {
  const std::string id = request.at("session");
  std::promise<bool> known;
  asio::post(executor_, [&] { known.set_value(sessions_.exists(id)); });
  if (!known.get_future().get())
    throw ControlFailure(exit_not_found, fmt::format("no session {}", id));
  const auto mode =
      request.value("stop", false) ? sessions::CloseMode::keep_warm : sessions::CloseMode::remove;
  await_call(executor_, nullptr, sessions_.close(id, mode));
  return {{"session", id}};
}

// False as well where the client or the daemon ends first: the io thread may answer no more.
bool ControlCommands::is_session(const os::UniqueFd& client, const std::string& id) {
  const auto known = std::make_shared<std::promise<bool>>();  // shared with a question on its way
  asio::post(executor_, [this, known, id] { known->set_value(sessions_.exists(id)); });
  auto answer = known->get_future();
  while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    if (hung_up(client, std::chrono::milliseconds(5))) return false;
  return answer.get();
}

json ControlCommands::show_egress_log(const os::UniqueFd& client, const json& request) {
  if (egress_log_ == nullptr)
    throw ControlFailure(exit_failed, "this daemon has no egress: no CA is set");
  return send_egress_log(*egress_log_, client, request,
                         [&](const std::string& id) { return is_session(client, id); });
}

json ControlCommands::probe() {
  const runtime::Reply reply = broker_.call(runtime::ProbeHost{});
  if (const auto* report = std::get_if<runtime::HostReport>(&reply.answer)) return report->checks;
  const auto* failed = std::get_if<runtime::Failed>(&reply.answer);
  throw ControlFailure(exit_failed,
                       failed != nullptr ? failed->message : "broker: answer of another kind");
}

}  // namespace daiv::cli
