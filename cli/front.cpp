#include "cli/front.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <memory>

#include "api/server.hpp"
#include "cli/broker_layers.hpp"
#include "cli/build_config.hpp"
#include "cli/control_commands.hpp"
#include "cli/control_server.hpp"
#include "cli/egress.hpp"
#include "cli/front_settings.hpp"
#include "cli/manager_notices.hpp"
#include "cli/passed_listeners.hpp"
#include "cli/pull_metrics.hpp"
#include "cli/watermark_pruner.hpp"
#include "images/image_service.hpp"
#include "os/allocator.hpp"
#include "runtime/broker_client.hpp"
#include "sessions/broker_host.hpp"
#include "sessions/native_sessions.hpp"
#include "sessions/on_pool.hpp"

namespace asio = boost::asio;

namespace daiv::cli {
namespace {

// Threads that wait for the broker, the database and files; and those that wait for registries.
constexpr std::size_t pool_threads = 16;
constexpr std::size_t pull_threads = 32;

sessions::SessionSettings with_egress(sessions::SessionSettings settings, Egress* egress) {
  if (egress != nullptr) settings.store.egress = egress->setup();
  return settings;
}

// All of the front, in order of dependence: what stands below uses what stands above.
class Front {
public:
  Front(const Settings& settings, FrontParts parts);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  int run();

private:
  asio::awaitable<void> serve();
  void stop(const char* reason);
  void broker_gone();
  void watch_signals();
  void reload();
  void say_ready();
  images::PullObserver disk_watch();

  const Settings& settings_;
  DirectoryLocks locks_;
  os::UniqueFd registry_auth_;
  ApiParts api_parts_;
  std::string address_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  asio::io_context io_{1};
  asio::thread_pool pool_{pool_threads};
  asio::thread_pool pull_pool_{pull_threads};
  std::stop_source stopping_;
  runtime::BrokerClient broker_;
  BrokerLayers layers_;
  images::ImageService images_;
  PullMetrics pulls_;
  sessions::BrokerHost host_;
  std::unique_ptr<Egress> egress_;  // empty: not configured
  sessions::NativeSessions sessions_;
  WatermarkPruner pruner_;
  api::Server server_;
  ControlCommands commands_;
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  ManagerNotices manager_{io_};
  ControlServer control_;
  int exit_code_ = 0;
  std::exception_ptr failure_;
};

Front::Front(const Settings& settings, FrontParts parts)
    : settings_(settings),
      locks_(std::move(parts.locks)),
      registry_auth_(std::move(parts.registry_auth)),
      api_parts_(std::move(parts.api)),
      address_(api_parts_.passed.empty() ? settings.host
                                         : describe_listener(api_parts_.passed.front().socket)),
      broker_(std::move(parts.broker.socket),
              [this] { asio::post(io_, [this] { broker_gone(); }); }),
      layers_(broker_, {}),
      images_(plan_image_settings(settings, registry_auth_), layers_),
      host_(broker_),
      egress_(parts.egress_authority ? std::make_unique<Egress>(settings, *parts.egress_authority,
                                                                broker_, io_.get_executor(), pool_)
                                     : nullptr),
      sessions_(
          with_egress(plan_session_settings(settings), egress_.get()), host_,
          [this](const std::string& reference) {
            return pulls_.watch(disk_watch(), [&](const images::PullObserver& observer) {
              return images_.ensure(reference, images::PullPolicy::if_missing, observer,
                                    stopping_.get_token());
            });
          },
          io_.get_executor(), pool_, pull_pool_),
      pruner_([this] {
        return images_.prune(images::ImageService::PruneScope::above_watermark,
                             [this] { return sessions_.layers_in_use(); });
      }),
      server_(plan_server_settings(settings, api_parts_), sessions_, io_.get_executor(), pool_,
              {api_parts_.observer,
               [this] { return pulls_.expose() + (egress_ ? egress_->expose() : ""); }}),
      commands_(images_, pulls_, sessions_, broker_, egress_ ? &egress_->log() : nullptr,
                io_.get_executor()),
      control_(std::move(parts.control_listener), parts.user.uid,
               [this](const os::UniqueFd& client, const nlohmann::json& request,
                      std::vector<os::UniqueFd> fds) {
                 return commands_.carry_out(client, request, std::move(fds));
               }) {}

// What runs on the pools uses the members below them.
Front::~Front() {
  stopping_.request_stop();
  control_.close();
  pool_.join();
  pull_pool_.join();
}

// The end of a pull, which nobody reports for an image that is there already.
images::PullObserver Front::disk_watch() {
  return [this](const images::PullEvent& event) {
    if (event.layer.empty() && event.stage == images::PullEvent::Stage::done) pruner_.disk_filled();
  };
}

int Front::run() {
  os::keep_freed_memory();
  sessions_.start();
  watch_signals();
  asio::co_spawn(io_, serve(), [this](const std::exception_ptr& error) {
    signals_.cancel();
    manager_.close();
    if (!error) return;
    failure_ = error;
    io_.stop();  // nobody is left to end what still waits
  });
  if (egress_)
    asio::co_spawn(io_, egress_->watch_host(), [](const std::exception_ptr& error) {
      if (error) spdlog::error("event=egress_not_watched");
    });
  say_ready();
  io_.run();
  if (failure_) std::rethrow_exception(failure_);
  return exit_code_;
}

asio::awaitable<void> Front::serve() {
  co_await server_.run();
  co_await sessions::on_pool(pool_, [this] { control_.close(); });
  co_await sessions_.shut_down();
  if (egress_) co_await egress_->stop();
}

void Front::stop(const char* reason) {
  spdlog::info("event=stopping reason=\"{}\"", reason);
  manager_.stopping(fmt::format("ending: {}", reason));
  stopping_.request_stop();
  server_.stop();
}

// Without its broker the front can do nothing: it ends, and whoever supervises it starts both
// again.
void Front::broker_gone() {
  exit_code_ = 1;
  stop("the broker ended");
}

void Front::watch_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (signal != SIGHUP) return stop(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    reload();
    watch_signals();
  });
}

// All that can change while the daemon runs is looked at by itself every few seconds; this makes
// it take the egress CA now.
void Front::reload() {
  manager_.reloading();
  if (egress_) egress_->take_changed_authority();
  manager_.reloaded();
}

void Front::say_ready() {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begun_);
  const char* scheme = settings_.tls_cert_file.empty() ? "http" : "https";
  if (api_parts_.passed.empty()) address_ += fmt::format(":{}", server_.port());
  spdlog::info("READY version={} address={}://{} state={} start_ms={}", version, scheme, address_,
               settings_.state_dir, took.count());
  manager_.ready(fmt::format("serving {} at {}://{}", version, scheme, address_));
}

}  // namespace

int run_front(const Settings& settings, FrontParts parts) {
  const pid_t broker = parts.broker.pid;
  int exit_code = 0;
  {
    Front front(settings, std::move(parts));
    exit_code = front.run();
  }
  // Its socket is closed now, so it ends; what it was doing it finishes first.
  if (broker != 0) ::waitpid(broker, nullptr, 0);
  spdlog::info("event=stopped exit_code={}", exit_code);
  return exit_code;
}

}  // namespace daiv::cli
