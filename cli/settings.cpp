#include "cli/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string_view>

#include "os/error.hpp"
#include "os/io.hpp"
#include "sentry/dsn.hpp"
#include "sessions/redis/url.hpp"
#include "wire/ascii.hpp"

namespace daiv::cli {
namespace {

constexpr std::string_view prefix = "DAIV_SANDBOX_";
constexpr std::size_t max_secret_bytes = 64U << 10;
constexpr std::size_t max_settings_file_bytes = 1U << 20;

using Values = std::map<std::string, std::string, std::less<>>;

std::optional<std::string> maybe_read(const std::string& path, std::size_t max_bytes) {
  try {
    return os::read_file(path, max_bytes);
  } catch (const os::Error& error) {
    if (error.error_number() == ENOENT || error.error_number() == ENOTDIR) return std::nullopt;
    throw;
  }
}

void add_assignment(Values& values, std::string_view line) {
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = wire::trim_lines(line.substr(0, equals));
  if (name.starts_with(prefix)) values.insert_or_assign(std::string(name), line.substr(equals + 1));
}

std::string_view unquote(std::string_view value) {
  value = wire::trim_lines(value);
  const bool quoted = value.size() >= 2 && value.front() == value.back() &&
                      (value.front() == '"' || value.front() == '\'');
  return quoted ? value.substr(1, value.size() - 2) : value;
}

// NAME=value lines, "#" comments, values optionally in quotes: as systemd's EnvironmentFile=.
Values parse_settings_file(std::string_view content) {
  Values values;
  while (!content.empty()) {
    const auto end = content.find('\n');
    const std::string_view line = wire::trim_lines(content.substr(0, end));
    content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    add_assignment(values, line);
  }
  for (auto& [name, value] : values) value = std::string(unquote(value));
  return values;
}

// The content of a file without the white space around it; nothing where that is all there is.
std::optional<std::string> read_secret(const std::string& path) {
  const auto content = maybe_read(path, max_secret_bytes);
  if (!content || wire::trim_lines(*content).empty()) return std::nullopt;
  return std::string(wire::trim_lines(*content));
}

std::optional<std::string> find_secret(const std::string& directory, const std::string& name) {
  if (directory.empty()) return std::nullopt;
  for (const std::string& file : {name, wire::lower(name)})
    if (auto secret = read_secret(directory + "/" + file)) return secret;
  return std::nullopt;
}

// Root's alone: whoever else runs is given them by the service manager.
std::optional<std::string> find_stored_credential(const std::string& directory,
                                                  const std::string& name) {
  try {
    return read_secret(fmt::format("{}/{}", directory, name.substr(prefix.size())));
  } catch (const os::Error& error) {
    if (error.error_number() != EACCES) throw;
    return std::nullopt;
  }
}

// Whether a field of HTTP can have this value (RFC 9110, section 5.5).
bool fits_header(std::string_view value) {
  const auto control = [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f';
  };
  return wire::trim(value) == value && std::ranges::none_of(value, control);
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

const SettingSpec& find_nearest(std::string_view name) {
  return *std::ranges::min_element(settings_table(), {}, [&](const SettingSpec& spec) {
    return edit_distance(name, spec.name);
  });
}

void warn_of_unknown(const Values& values, std::vector<std::string>& warnings) {
  for (const auto& [name, value] : values) {
    const bool known = std::ranges::any_of(
        settings_table(), [&](const SettingSpec& spec) { return spec.name == name; });
    if (known) continue;
    warnings.push_back(fmt::format("unknown setting {}; the nearest known one is {}", name,
                                   find_nearest(name).name));
  }
}

SettingValue find_value(const SettingSpec& spec, const SettingSources& sources,
                        const Values& environment, const Values& file) {
  const auto set = environment.find(spec.name);
  if (set != environment.end() && !set->second.empty())
    return {&spec, set->second, Source::environment};
  if (auto secret = find_secret(sources.credentials_dir, spec.name))
    return {&spec, *secret, Source::credentials};
  if (auto secret = find_secret(sources.secrets_dir, spec.name))
    return {&spec, *secret, Source::run_secrets};
  if (auto secret = find_stored_credential(sources.credential_store, spec.name))
    return {&spec, *secret, Source::credential_store};
  const auto written = file.find(spec.name);
  if (written != file.end() && !written->second.empty())
    return {&spec, written->second, Source::settings_file};
  return {&spec, spec.default_value, Source::built_in};
}

}  // namespace

const char* describe(Source source) {
  switch (source) {
    case Source::built_in:
      return "default";
    case Source::environment:
      return "environment";
    case Source::credentials:
      return "credentials directory";
    case Source::run_secrets:
      return "/run/secrets";
    case Source::credential_store:
      return "/etc/daiv-sandbox/credentials";
    case Source::settings_file:
      return "/etc/daiv-sandbox/daiv-sandbox.env";
  }
  return "";
}

SettingSources system_setting_sources() {
  SettingSources sources;
  for (char** entry = environ; *entry != nullptr; ++entry) sources.environment.emplace_back(*entry);
  if (const char* credentials = std::getenv("CREDENTIALS_DIRECTORY"))
    sources.credentials_dir = credentials;
  return sources;
}

LoadedSettings load_settings(const SettingSources& sources) {
  LoadedSettings loaded;
  Values environment;
  for (const auto& entry : sources.environment) add_assignment(environment, entry);
  Values file;
  try {
    file = parse_settings_file(
        maybe_read(sources.settings_file, max_settings_file_bytes).value_or(""));
  } catch (const os::Error& error) {
    // Only root may read it; the command line also works for those who may not.
    loaded.errors.push_back(fmt::format("can't read settings: {}", error.what()));
  }
  for (const SettingSpec& spec : settings_table()) {
    SettingValue value = find_value(spec, sources, environment, file);
    if (!value.text.empty() && !spec.parse(loaded.settings, value.text)) {
      const std::string shown = spec.secrecy == Secrecy::secret ? "**********" : value.text;
      loaded.errors.push_back(fmt::format("{}={} (from {}): expected {}", spec.name, shown,
                                          describe(value.source), spec.accepted));
      if (!spec.default_value.empty()) spec.parse(loaded.settings, spec.default_value);
    }
    loaded.values.push_back(std::move(value));
  }
  warn_of_unknown(environment, loaded.warnings);
  warn_of_unknown(file, loaded.warnings);
  return loaded;
}

std::vector<std::string> find_conflicts(const Settings& settings) {
  std::vector<std::string> conflicts;
  if (wire::trim_lines(settings.api_key).empty()) {
    conflicts.emplace_back("DAIV_SANDBOX_API_KEY is required: the key that clients must send");
  } else if (!fits_header(settings.api_key)) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_API_KEY: no client can send it, for white space at an end or a control "
        "character");
  }
  if (settings.runtime == Runtime::runsc) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_RUNTIME=runsc: this version has the native runtime only (runc); it does not "
        "fall back silently");
  }
  if (!settings.redis_url.empty()) {
    if (const auto url = sessions::redis::parse_url(settings.redis_url); !url)
      conflicts.push_back("DAIV_SANDBOX_REDIS_URL: " + url.error());
    if (settings.session_lock_refresh >= settings.session_lock_ttl)
      conflicts.emplace_back(
          "DAIV_SANDBOX_SESSION_LOCK_REFRESH_SECONDS must be less than "
          "DAIV_SANDBOX_SESSION_LOCK_TTL_SECONDS, or locks end while they are held");
  }
  if (settings.tls_cert_file.empty() != settings.tls_key_file.empty()) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_TLS_CERT_FILE and DAIV_SANDBOX_TLS_KEY_FILE: set both or neither");
  }
  if (!settings.sentry_dsn.empty()) {
    if (const auto dsn = sentry::parse_dsn(settings.sentry_dsn); !dsn)
      conflicts.push_back("DAIV_SANDBOX_SENTRY_DSN: " + dsn.error());
  }
  if (settings.egress_ca_cert_file.empty() != settings.egress_ca_key_file.empty()) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_EGRESS_CA_CERT_FILE and DAIV_SANDBOX_EGRESS_CA_KEY_FILE: set both or "
        "neither");
  }
  if (settings.state_dir == settings.runtime_dir)
    conflicts.emplace_back(
        "DAIV_SANDBOX_STATE_DIR and DAIV_SANDBOX_RUNTIME_DIR must be two directories");
  if (settings.uid_start + 65536ULL * settings.uid_count > 4294967295ULL) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_UID_START and DAIV_SANDBOX_UID_COUNT: the ranges pass the highest uid");
  }
  if (settings.uid_start % 65536 != 0) {
    conflicts.emplace_back(
        "DAIV_SANDBOX_UID_START must be a multiple of 65536, or ranges could overlap those of "
        "another "
        "daemon");
  }
  return conflicts;
}

std::vector<std::string> find_remarks(const LoadedSettings& loaded) {
  std::vector<std::string> remarks;
  for (const SettingValue& value : loaded.values) {
    if (value.source == Source::built_in) continue;
    const std::string& meaning = value.spec->meaning;
    for (const std::string_view mark :
         {"without effect", "Without effect", "Not in effect", "not available yet"}) {
      if (meaning.find(mark) == std::string::npos) continue;
      remarks.push_back(fmt::format("{} is set: {}", value.spec->name, meaning));
      break;
    }
  }
  return remarks;
}

}  // namespace daiv::cli
