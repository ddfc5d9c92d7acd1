#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// The settings of the daemon: one table (settings_table.cpp) says name, default, meaning and what
// is accepted; the documentation and `daiv-sandbox settings` are made from it.
namespace daiv::cli {

enum class Environment { local, production };
enum class LogLevel { debug, info, warning, error, critical };
enum class LogFormat { text, json };
enum class Runtime { runc, runsc };  // "runc" is the native runtime, see docs/settings.md
enum class Switch { off, on };
enum class Transparent { automatic, off };

// One item of DAIV_SANDBOX_EGRESS_EXTRA_HOSTS.
struct EgressHost {
  std::string name;
  std::string address;  // an IPv4 or IPv6 literal, without brackets
};

using Milliseconds = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;

struct Settings {
  std::string api_key;
  std::string api_v1_str;
  Environment environment{};
  std::string host;
  std::uint16_t port{};
  std::string unix_socket;
  std::string tls_cert_file;
  std::string tls_key_file;
  LogLevel log_level{};
  LogFormat log_format{};

  std::string state_dir;
  std::string runtime_dir;
  std::string user;
  std::string broker_socket;
  std::uint32_t uid_start{};
  std::uint32_t uid_count{};
  std::string cgroup_root;
  Runtime runtime{};
  std::uint32_t run_uid{};
  std::uint32_t run_gid{};
  Switch no_new_privs{};
  std::uint64_t pids_limit{};

  std::string registry_auth_file;
  std::string registries_conf;
  Switch keep_blobs{};
  Seconds pull_no_progress{};
  std::uint64_t session_disk_bytes{};
  std::uint64_t min_free_disk_bytes{};
  double disk_watermark{};

  Seconds command_timeout{};
  std::uint64_t max_output_bytes{};
  std::uint64_t seed_max_bytes{};
  std::uint64_t seed_max_entries{};
  std::vector<std::string> fs_prune_dirs;

  std::string redis_url;
  Milliseconds session_lock_ttl{};
  Milliseconds session_lock_wait{};
  Milliseconds session_lock_refresh{};
  Switch reaper_enabled{};
  Seconds reaper_interval{};
  Seconds session_grace{};
  std::uint64_t max_stopped_sessions{};
  Seconds running_session_max_idle{};
  Milliseconds stop_timeout{};

  std::string network;
  std::string egress_proxy_image;
  std::uint16_t egress_proxy_port{};
  Runtime egress_proxy_runtime{};
  std::string egress_proxy_network;
  std::uint64_t egress_proxy_memory_bytes{};
  double egress_proxy_cpus{};
  std::string egress_ca_cert_file;
  std::string egress_ca_key_file;
  std::string egress_subnet;
  std::vector<EgressHost> egress_extra_hosts;
  std::string egress_upstream_ca_file;
  Switch egress_inject_plaintext{};
  Transparent egress_transparent{};

  std::string sentry_dsn;
  Switch sentry_enable_logs{};
  double sentry_traces_sample_rate{};
  double sentry_profiles_sample_rate{};
  Switch sentry_send_default_pii{};
};

enum class Secrecy { open, secret };

struct SettingSpec {
  std::string name;           // with its prefix
  std::string default_value;  // empty: none
  std::string accepted;       // for people: "a number from 1 to 65535"
  std::string meaning;
  Secrecy secrecy = Secrecy::open;
  // Sets the field from its text; false where the text is not accepted.
  std::function<bool(Settings&, const std::string&)> parse;
};

// All settings, in the order in which they are documented.
const std::vector<SettingSpec>& settings_table();

enum class Source {
  built_in,
  environment,
  credentials,
  run_secrets,
  credential_store,
  settings_file
};
const char* describe(Source source);

struct SettingValue {
  const SettingSpec* spec = nullptr;
  std::string text;
  Source source = Source::built_in;
};

// Where settings are looked for; the first that has a name wins, and an empty value counts as
// unset.
struct SettingSources {
  std::vector<std::string> environment;  // NAME=value, as environ(7)
  std::string credentials_dir;  // empty: none; files named like the setting, whole or in lower case
  std::string secrets_dir = "/run/secrets";
  // What daiv-sandbox.service loads as credentials, for root's command line beside it: files named
  // like the setting without its prefix.
  std::string credential_store = "/etc/daiv-sandbox/credentials";
  std::string settings_file = "/etc/daiv-sandbox/daiv-sandbox.env";
};
SettingSources system_setting_sources();

struct LoadedSettings {
  Settings settings;  // where a value was bad, the default stands
  std::vector<SettingValue> values;
  std::vector<std::string> errors;    // bad values, one line each
  std::vector<std::string> warnings;  // unknown names
};

LoadedSettings load_settings(const SettingSources& sources);

// What keeps the daemon from starting with these settings, apart from bad values; one line each.
std::vector<std::string> find_conflicts(const Settings& settings);
// What an operator must know of settings that are read but without effect; one line each.
std::vector<std::string> find_remarks(const LoadedSettings& loaded);

}  // namespace daiv::cli
