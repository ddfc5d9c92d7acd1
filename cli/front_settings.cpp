#include "cli/front_settings.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "cli/build_config.hpp"
#include "cli/proxy_environment.hpp"

namespace daiv::cli {
namespace {

// A memfd is read again by way of its link in /proc (proc(5): a process may always open its own
// descriptors' files that it may read).
std::string path_of(const os::UniqueFd& copy, const std::string& path) {
  return copy ? fmt::format("/proc/self/fd/{}", copy.get()) : path;
}

sessions::SharedSettings plan_sharing(const Settings& settings) {
  auto url = sessions::redis::parse_url(settings.redis_url);
  if (!url) throw std::invalid_argument(url.error());  // find_conflicts() has let it through
  sessions::SharedSettings plan;
  plan.redis = std::move(*url);
  plan.identity_file = settings.state_dir + "/front/identity";
  plan.lock_ttl = settings.session_lock_ttl;
  plan.lock_refresh = settings.session_lock_refresh;
  plan.reaper_interval = settings.reaper_interval;
  plan.running_max_idle = settings.running_session_max_idle;
  return plan;
}

}  // namespace

images::ImageSettings plan_image_settings(const Settings& settings,
                                          const os::UniqueFd& registry_auth) {
  images::ImageSettings plan;
  plan.state_dir = settings.state_dir + "/front";
  plan.registry_auth_file = path_of(registry_auth, "");  // read again at each pull
  plan.registries_conf = settings.registries_conf;
  plan.blobs =
      settings.keep_blobs == Switch::on ? images::BlobRetention::keep : images::BlobRetention::drop;
  plan.prune_above_used_fraction = settings.disk_watermark;
  plan.no_progress_limit = settings.pull_no_progress;
  plan.min_free_bytes = settings.min_free_disk_bytes;
  ProxyEnvironment proxies = read_proxy_environment(find_environment_variable);
  plan.https_proxy = std::move(proxies.https_proxy);
  plan.http_proxy = std::move(proxies.http_proxy);
  plan.no_proxy = std::move(proxies.no_proxy);
  return plan;
}

sessions::SessionSettings plan_session_settings(const Settings& settings) {
  sessions::SessionSettings plan;
  plan.store.database_path = settings.state_dir + "/front/state.db";
  plan.store.runtime_dir = settings.runtime_dir;
  plan.store.uid_start = settings.uid_start;
  plan.store.uid_count = settings.uid_count;
  plan.store.no_new_privs = settings.no_new_privs == Switch::on
                                ? sessions::StoreSettings::NoNewPrivs::on
                                : sessions::StoreSettings::NoNewPrivs::off;
  plan.store.max_processes = static_cast<std::uint32_t>(settings.pids_limit);
  plan.store.prune_dirs = settings.fs_prune_dirs;
  plan.store.stop_timeout = settings.stop_timeout;
  plan.spool_dir = settings.state_dir + "/front/tmp";
  plan.run_uid = settings.run_uid;
  plan.run_gid = settings.run_gid;
  plan.pids_limit = settings.pids_limit;
  plan.command_timeout = settings.command_timeout;
  plan.lock_wait = settings.session_lock_wait;
  plan.max_output_bytes = settings.max_output_bytes;
  plan.seed_max_bytes = settings.seed_max_bytes;
  plan.seed_max_entries = settings.seed_max_entries;
  plan.reaper = settings.reaper_enabled == Switch::on ? sessions::SessionSettings::Reaper::on
                                                      : sessions::SessionSettings::Reaper::off;
  plan.reaper_interval = settings.reaper_interval;
  plan.reaping.grace = settings.session_grace;
  plan.reaping.max_stopped = settings.max_stopped_sessions;
  plan.reaping.running_max_idle = settings.running_session_max_idle;
  if (!settings.redis_url.empty()) plan.shared = plan_sharing(settings);
  return plan;
}

api::ServerSettings plan_server_settings(const Settings& settings, ApiParts& parts) {
  api::ServerSettings plan;
  plan.api_key = settings.api_key;
  plan.prefix = settings.api_v1_str == "/" ? "" : settings.api_v1_str;
  plan.version = version;
  plan.environment = settings.environment == Environment::local ? api::Environment::local
                                                                : api::Environment::production;
  plan.log_format =
      settings.log_format == LogFormat::json ? api::LogFormat::json : api::LogFormat::text;
  plan.host = settings.host;
  plan.port.reset();
  if (parts.passed.empty()) plan.port = settings.port;
  for (os::PassedSocket& passed : parts.passed)
    plan.listener_fds.push_back(passed.socket.release());
  if (parts.listener) plan.listener_fds.push_back(parts.listener.release());
  if (!settings.tls_cert_file.empty())
    plan.tls = api::TlsFiles{path_of(parts.tls_certificate, settings.tls_cert_file),
                             path_of(parts.tls_key, settings.tls_key_file)};
  return plan;
}

}  // namespace daiv::cli
