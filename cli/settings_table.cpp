#include <csignal>
#include <limits>

#include "cli/setting_parsers.hpp"
#include "cli/settings.hpp"

namespace daiv::cli {
namespace {

constexpr std::uint64_t max_uid = 65534;
constexpr std::uint64_t max_u64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t max_bytes = 1ULL << 50;
constexpr std::uint64_t first_uid = 65536;  // below lie the host's own users
constexpr std::uint64_t last_uid = 4294901760;

constexpr const char* prune_dirs =
    ".git,.hg,.svn,.idea,.vs,__pycache__,.ruff_cache,.mypy_cache,.pytest_cache,.pyre,.pytype,."
    "hypothesis,"
    ".ipynb_checkpoints,*.egg-info,.eggs,.next,.nuxt,.svelte-kit,.turbo,.parcel-cache,.angular,."
    "vite,.astro,"
    ".docusaurus,.cache,.phpunit.cache,.gradle,target,obj";

constexpr const char* any_text = "text";
constexpr const char* a_path = "an absolute path";
constexpr const char* a_network = "an interface or a network namespace of this host";
constexpr const char* a_switch = "true or false";
constexpr const char* whole_seconds = "seconds, 0 or more";
constexpr const char* rate = "a number from 0 to 1";

using S = Settings;

std::vector<SettingSpec> service_settings() {
  return {
      {"DAIV_SANDBOX_API_KEY", "", "text, not empty",
       "The key that clients send as X-API-Key. Required.", Secrecy::secret, text_of(&S::api_key)},
      {"DAIV_SANDBOX_API_V1_STR", "/api/v1", "a path that begins with /, or /",
       "Base path of the API, which is also served at the root.", Secrecy::open,
       prefix_of(&S::api_v1_str)},
      {"DAIV_SANDBOX_ENVIRONMENT", "production", "local or production",
       "local puts error details into 500 answers and keeps Sentry off.", Secrecy::open,
       choice_of<Environment>(&S::environment, {{"local", Environment::local},
                                                {"production", Environment::production}})},
      {"DAIV_SANDBOX_HOST", "0.0.0.0", "an address or a host name", "Where the API listens.",
       Secrecy::open, text_of(&S::host)},
      {"DAIV_SANDBOX_PORT", "8000", "a port from 0 to 65535; 0 lets the kernel choose",
       "TCP port of the API.", Secrecy::open, number_of(&S::port, 0, 65535)},
      {"DAIV_SANDBOX_UNIX_SOCKET", "", a_path,
       "A unix socket on which the API listens as well, without TLS: mode 0660, group of the "
       "daemon's user.",
       Secrecy::open, path_of(&S::unix_socket)},
      {"DAIV_SANDBOX_TLS_CERT_FILE", "", a_path,
       "Certificate chain (PEM) of the API: HTTPS alone is then spoken over TCP. Read as the "
       "daemon's user, and again when it changes.",
       Secrecy::open, path_of(&S::tls_cert_file)},
      {"DAIV_SANDBOX_TLS_KEY_FILE", "", a_path,
       "Private key (PEM, without passphrase) of the API's certificate. Read as the daemon's "
       "user, and again when it changes.",
       Secrecy::open, path_of(&S::tls_key_file)},
      {"DAIV_SANDBOX_LOG_LEVEL", "INFO", "DEBUG, INFO, WARNING, ERROR or CRITICAL",
       "What is logged at least.", Secrecy::open,
       choice_of<LogLevel>(&S::log_level, {{"DEBUG", LogLevel::debug},
                                           {"INFO", LogLevel::info},
                                           {"WARNING", LogLevel::warning},
                                           {"ERROR", LogLevel::error},
                                           {"CRITICAL", LogLevel::critical}})},
      {"DAIV_SANDBOX_LOG_FORMAT", "text", "text or json",
       "One line an event, for people or as JSON.", Secrecy::open,
       choice_of<LogFormat>(&S::log_format,
                            {{"text", LogFormat::text}, {"json", LogFormat::json}})},
  };
}

std::vector<SettingSpec> host_settings() {
  return {
      {"DAIV_SANDBOX_STATE_DIR", "/var/lib/daiv-sandbox", a_path,
       "Images, sessions and their writable layers.", Secrecy::open, path_of(&S::state_dir)},
      {"DAIV_SANDBOX_RUNTIME_DIR", "/run/daiv-sandbox", a_path,
       "Sockets of the sandboxes and of the command line.", Secrecy::open,
       path_of(&S::runtime_dir)},
      {"DAIV_SANDBOX_USER", "daiv-sandbox", "the name of a user of this host",
       "The user that the daemon runs as once the broker is started.", Secrecy::open,
       text_of(&S::user)},
      {"DAIV_SANDBOX_BROKER_SOCKET", "", a_path,
       "Where a broker that is a unit of its own listens; the daemon is then started as its user "
       "and never root. Without it serve starts the broker.",
       Secrecy::open, path_of(&S::broker_socket)},
      {"DAIV_SANDBOX_UID_START", "1879048192", "a uid from 65536 to 4294901760",
       "First of the host uids given to sandboxes; nothing else on the host may use them.",
       Secrecy::open, number_of(&S::uid_start, first_uid, last_uid)},
      {"DAIV_SANDBOX_UID_COUNT", "4096", "a number from 2 to 32768",
       "How many ranges of 65,536 uids begin there: one for the images, one for each session.",
       Secrecy::open, number_of(&S::uid_count, 2, 32768)},
      {"DAIV_SANDBOX_CGROUP_ROOT", "", "an absolute path below the cgroup2 mount",
       "The cgroup below which sessions get theirs; by default that of "
       "daiv-sandbox-sessions.service "
       "where it runs, else daiv-sandbox below the cgroup2 mount.",
       Secrecy::open, path_of(&S::cgroup_root)},
      {"DAIV_SANDBOX_RUNTIME", "runc", "runc or runsc",
       "runc is the native runtime of this daemon; runsc is not available and stops the start.",
       Secrecy::open,
       choice_of<Runtime>(&S::runtime, {{"runc", Runtime::runc}, {"runsc", Runtime::runsc}})},
      {"DAIV_SANDBOX_RUN_UID", "1000", "a uid from 0 to 65534",
       "The uid of commands inside a sandbox.", Secrecy::open, number_of(&S::run_uid, 0, max_uid)},
      {"DAIV_SANDBOX_RUN_GID", "1000", "a gid from 0 to 65534",
       "The gid of commands inside a sandbox.", Secrecy::open, number_of(&S::run_gid, 0, max_uid)},
      {"DAIV_SANDBOX_NO_NEW_PRIVS", "true", a_switch,
       "false lets setuid programs of an image work, inside the sandbox's user namespace only.",
       Secrecy::open, switch_of(&S::no_new_privs)},
      {"DAIV_SANDBOX_PIDS_LIMIT", "4096", "a number from 8 to 4194304",
       "Processes and threads of one session, the agent and its file operations among them.",
       Secrecy::open, number_of(&S::pids_limit, 8, 4194304)},
      {"DAIV_SANDBOX_SESSION_DISK_BYTES", "0", "bytes, 0 or more; 0 means no bound",
       "What a session may write to the disk, in one file for each 4 KiB of it at most. Needs a "
       "state directory on ext4 or xfs mounted with "
       "prjquota; sessions are refused where there is none. Holds for sessions made since it was "
       "set.",
       Secrecy::open, number_of(&S::session_disk_bytes, 0, max_bytes)},
      {"DAIV_SANDBOX_MIN_FREE_DISK_BYTES", "268435456", "bytes, 0 or more; 0 means no floor",
       "With less free on the state directory's disk, or inodes for less than one in a hundred of "
       "its files, new sessions and images are refused (503); existing sessions go on.",
       Secrecy::open, number_of(&S::min_free_disk_bytes, 0, max_bytes)},
  };
}

std::vector<SettingSpec> image_settings() {
  return {
      {"DAIV_SANDBOX_REGISTRY_AUTH_FILE", "", a_path,
       "Registry credentials in Docker's config.json form; by default root's own "
       "~/.docker/config.json where root starts serve.",
       Secrecy::open, path_of(&S::registry_auth_file)},
      {"DAIV_SANDBOX_REGISTRIES_CONF", "/etc/containers/registries.conf", a_path,
       "Mirrors, blocked and insecure registries, as podman and skopeo read them.", Secrecy::open,
       path_of(&S::registries_conf)},
      {"DAIV_SANDBOX_KEEP_BLOBS", "false", a_switch, "Keep compressed layers after unpacking.",
       Secrecy::open, switch_of(&S::keep_blobs)},
      {"DAIV_SANDBOX_PULL_NO_PROGRESS_SECONDS", "60", "seconds, 1 or more",
       "A download that brings nothing for so long has failed.", Secrecy::open,
       seconds_of(&S::pull_no_progress, 1)},
      {"DAIV_SANDBOX_DISK_WATERMARK", "0.9", "a number from 0 to 1; 1 means never",
       "Above this used fraction of the disk, images unused for longest are removed, each minute "
       "and "
       "after a pull.",
       Secrecy::open, real_of(&S::disk_watermark, 0, 1)},
  };
}

std::vector<SettingSpec> operation_settings() {
  return {
      {"DAIV_SANDBOX_COMMAND_TIMEOUT", "0", whole_seconds,
       "Time limit of a command whose request names none; 0 means none.", Secrecy::open,
       seconds_of(&S::command_timeout, 0)},
      {"DAIV_SANDBOX_MAX_OUTPUT_BYTES", "33554432", "bytes, 4096 or more",
       "How much of a command's output is kept; a last line says what was cut.", Secrecy::open,
       number_of(&S::max_output_bytes, 4096, max_bytes)},
      {"DAIV_SANDBOX_SEED_MAX_BYTES", "8589934592", "bytes, 1 or more", "Unpacked size of a seed.",
       Secrecy::open, number_of(&S::seed_max_bytes, 1, max_bytes)},
      {"DAIV_SANDBOX_SEED_MAX_ENTRIES", "2000000", "a number, 1 or more",
       "Members of a seed's archives.", Secrecy::open, number_of(&S::seed_max_entries, 1, max_u64)},
      {"DAIV_SANDBOX_FS_PRUNE_DIRS", prune_dirs, "names and globs, separated by commas",
       "Folders that fs/glob and fs/grep pass over; replaces the whole default.", Secrecy::open,
       list_of(&S::fs_prune_dirs)},
  };
}

std::vector<SettingSpec> session_settings() {
  return {
      {"DAIV_SANDBOX_REDIS_URL", "", "a redis:// or rediss:// URL",
       "Where locks and use times of sessions are shared with other daemons (docs/redis.md); in "
       "this "
       "process alone where it is not set.",
       Secrecy::secret, text_of(&S::redis_url)},
      {"DAIV_SANDBOX_SESSION_LOCK_TTL_SECONDS", "900", "seconds, 1 or more",
       "Life of a lock in Redis.", Secrecy::open, seconds_of(&S::session_lock_ttl, 1)},
      {"DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS", "30.0", whole_seconds,
       "How long an operation waits for its turn on a session before it is answered 409.",
       Secrecy::open, seconds_of(&S::session_lock_wait, 0)},
      {"DAIV_SANDBOX_SESSION_LOCK_REFRESH_SECONDS", "30.0", "seconds, more than 0",
       "How often a lock in Redis is renewed.", Secrecy::open,
       seconds_of(&S::session_lock_refresh, 0.001)},
      {"DAIV_SANDBOX_REAPER_ENABLED", "true", a_switch,
       "Remove sessions that nobody will use again.", Secrecy::open, switch_of(&S::reaper_enabled)},
      {"DAIV_SANDBOX_REAPER_INTERVAL_SECONDS", "600", "seconds, 1 or more",
       "Time between two sweeps.", Secrecy::open, seconds_of(&S::reaper_interval, 1)},
      {"DAIV_SANDBOX_SESSION_GRACE_SECONDS", "43200", whole_seconds,
       "A session that has been stopped for longer is removed.", Secrecy::open,
       seconds_of(&S::session_grace, 0)},
      {"DAIV_SANDBOX_MAX_STOPPED_SESSIONS", "50", "a number, 0 or more",
       "More stopped sessions than this are removed, those unused for longest first.",
       Secrecy::open, number_of(&S::max_stopped_sessions, 0, max_u64)},
      {"DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS", "14400", whole_seconds,
       "A running session that has not been used for longer is removed (no Redis is needed for "
       "it); 0 means never.",
       Secrecy::open, seconds_of(&S::running_session_max_idle, 0)},
      {"DAIV_SANDBOX_STOP_TIMEOUT_SECONDS", "2", whole_seconds,
       "Time between SIGTERM and SIGKILL for the processes of a session that is stopped.",
       Secrecy::open, seconds_of(&S::stop_timeout, 0)},
  };
}

std::vector<SettingSpec> egress_settings() {
  return {
      {"DAIV_SANDBOX_NETWORK", "", a_network,
       "What connections to origins leave through: an interface of the host or, where it has none "
       "of that name, the network namespace that ip netns knows by it; /run/netns/NAME is always "
       "the namespace. Any interface where it is not set.",
       Secrecy::open, text_of(&S::network)},
      {"DAIV_SANDBOX_EGRESS_PROXY_IMAGE", "ghcr.io/srtab/daiv-sandbox-egress:latest", any_text,
       "Accepted for compatibility, without effect: the proxy is part of the daemon.",
       Secrecy::open, text_of(&S::egress_proxy_image)},
      {"DAIV_SANDBOX_EGRESS_PROXY_PORT", "8080", "a port from 1 to 65535",
       "Port of the proxy inside a session's network.", Secrecy::open,
       number_of(&S::egress_proxy_port, 1, 65535)},
      {"DAIV_SANDBOX_EGRESS_PROXY_RUNTIME", "runc", "runc or runsc",
       "Accepted for compatibility, without effect.", Secrecy::open,
       choice_of<Runtime>(&S::egress_proxy_runtime,
                          {{"runc", Runtime::runc}, {"runsc", Runtime::runsc}})},
      {"DAIV_SANDBOX_EGRESS_PROXY_NETWORK", "", a_network,
       "As DAIV_SANDBOX_NETWORK, and before it.", Secrecy::open, text_of(&S::egress_proxy_network)},
      {"DAIV_SANDBOX_EGRESS_PROXY_MEMORY_BYTES", "", "bytes, 0 or more",
       "Bound of the proxy's buffers for one session; 64 MiB where it is not set or 0.",
       Secrecy::open, number_of(&S::egress_proxy_memory_bytes, 0, max_bytes)},
      {"DAIV_SANDBOX_EGRESS_PROXY_CPUS", "", "a number, 0 or more",
       "Accepted for compatibility, without effect.", Secrecy::open,
       real_of(&S::egress_proxy_cpus, 0, 1e6)},
      {"DAIV_SANDBOX_EGRESS_CA_CERT_FILE", "", a_path,
       "Certificate of the egress CA, installed into sandboxes; with the key, or neither. Without "
       "it, a session that asks for egress is refused.",
       Secrecy::open, path_of(&S::egress_ca_cert_file)},
      {"DAIV_SANDBOX_EGRESS_CA_KEY_FILE", "", a_path,
       "Private key of the egress CA. Read at start, by root; read again when it changes, if the "
       "daemon's user may.",
       Secrecy::open, path_of(&S::egress_ca_key_file)},
      {"DAIV_SANDBOX_EGRESS_SUBNET", "100.124.0.0/14", "an IPv4 network such as 10.200.0.0/16",
       "Addresses of the links between sandboxes and the proxy, four for each uid range.",
       Secrecy::open, subnet_of(&S::egress_subnet)},
      {"DAIV_SANDBOX_EGRESS_EXTRA_HOSTS", "", "NAME:ADDRESS, separated by commas",
       "Names that the proxy knows without asking a name server.", Secrecy::open,
       hosts_of(&S::egress_extra_hosts)},
      {"DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE", "", a_path,
       "Certificates (PEM) that origins may show besides the host's trusted ones; readable by the "
       "daemon's user.",
       Secrecy::open, path_of(&S::egress_upstream_ca_file)},
      {"DAIV_SANDBOX_EGRESS_INJECT_PLAINTEXT", "true", a_switch,
       "Inject credentials into plain http to the rule's host as well.", Secrecy::open,
       switch_of(&S::egress_inject_plaintext)},
      {"DAIV_SANDBOX_EGRESS_TRANSPARENT", "auto", "auto or off",
       "Programs that know no proxy reach it as well: a resolver and ports 80 and 443 at the "
       "proxy's "
       "end; auto: where the kernel can. With it DAIV_SANDBOX_EGRESS_PROXY_PORT can't be 53, 80 or "
       "443.",
       Secrecy::open,
       choice_of<Transparent>(&S::egress_transparent,
                              {{"auto", Transparent::automatic}, {"off", Transparent::off}})},
  };
}

std::vector<SettingSpec> sentry_settings() {
  return {
      {"DAIV_SANDBOX_SENTRY_DSN", "", "a Sentry DSN",
       "Where errors are reported; nowhere where it is not set.", Secrecy::secret,
       text_of(&S::sentry_dsn)},
      {"DAIV_SANDBOX_SENTRY_ENABLE_LOGS", "false", a_switch, "Forward log lines to Sentry.",
       Secrecy::open, switch_of(&S::sentry_enable_logs)},
      {"DAIV_SANDBOX_SENTRY_TRACES_SAMPLE_RATE", "0.0", rate,
       "Fraction of requests that are sent as transactions.", Secrecy::open,
       real_of(&S::sentry_traces_sample_rate, 0, 1)},
      {"DAIV_SANDBOX_SENTRY_PROFILES_SAMPLE_RATE", "0.0", rate,
       "Passed on with transactions; there is no profiler.", Secrecy::open,
       real_of(&S::sentry_profiles_sample_rate, 0, 1)},
      {"DAIV_SANDBOX_SENTRY_SEND_DEFAULT_PII", "false", a_switch,
       "Send client addresses and header values to Sentry; keys and cookies never.", Secrecy::open,
       switch_of(&S::sentry_send_default_pii)},
  };
}

}  // namespace

const std::vector<SettingSpec>& settings_table() {
  static const std::vector<SettingSpec> table = [] {
    std::vector<SettingSpec> all;
    for (auto group : {service_settings(), host_settings(), image_settings(), operation_settings(),
                       session_settings(), egress_settings(), sentry_settings()}) {
      for (auto& spec : group) all.push_back(std::move(spec));
    }
    return all;
  }();
  return table;
}

}  // namespace daiv::cli
