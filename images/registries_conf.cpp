#include "images/registries_conf.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {
namespace {

using Registry = RegistriesConf::Registry;
using Mirror = RegistriesConf::Mirror;
using MirrorUse = RegistriesConf::MirrorUse;

constexpr std::size_t max_file_bytes = std::size_t{1} << 20U;
constexpr std::string_view wildcard = "*.";

// Carries a refusal out of nested reading; never leaves this file.
struct Refusal {
  std::string text;
};

std::string text_at(const toml::table& table, std::string_view key) {
  const auto* node = table.get(key);
  if (node == nullptr) return {};
  const auto value = node->value_exact<std::string>();
  if (!value) throw Refusal{fmt::format("{}: not a string", key)};
  return *value;
}

bool flag_at(const toml::table& table, std::string_view key) {
  const auto* node = table.get(key);
  if (node == nullptr) return false;
  const auto value = node->value_exact<bool>();
  if (!value) throw Refusal{fmt::format("{}: neither true nor false", key)};
  return *value;
}

std::vector<const toml::table*> tables_at(const toml::table& table, std::string_view key) {
  std::vector<const toml::table*> tables;
  const auto* node = table.get(key);
  if (node == nullptr) return tables;
  const auto* array = node->as_array();
  if (array == nullptr) throw Refusal{fmt::format("{}: not a list of tables", key)};
  for (const auto& element : *array) {
    if (!element.is_table()) throw Refusal{fmt::format("{}: not a list of tables", key)};
    tables.push_back(element.as_table());
  }
  return tables;
}

Transport transport_at(const toml::table& table) {
  return flag_at(table, "insecure") ? Transport::insecure : Transport::verified_tls;
}

void check_location(std::string_view location, std::string_view key) {
  if (location.contains("://"))
    throw Refusal{fmt::format("{} \"{}\": without scheme, please", key, location)};
  if (location.starts_with('/') || location.ends_with('/') || location.contains('*')) {
    throw Refusal{
        fmt::format("{} \"{}\": must be a host with an optional port and path", key, location)};
  }
}

MirrorUse mirror_use_of(const toml::table& table, bool by_digest_only) {
  const std::string use = text_at(table, "pull-from-mirror");
  if (use.empty()) return by_digest_only ? MirrorUse::digest_only : MirrorUse::all;
  if (by_digest_only) {
    throw Refusal{"pull-from-mirror: can't be set beside mirror-by-digest-only"};
  }
  if (use == "all") return MirrorUse::all;
  if (use == "digest-only") return MirrorUse::digest_only;
  if (use == "tag-only") return MirrorUse::tag_only;
  throw Refusal{fmt::format("pull-from-mirror \"{}\": must be all, digest-only or tag-only", use)};
}

Mirror mirror_of(const toml::table& table, bool by_digest_only) {
  Mirror mirror{.location = text_at(table, "location"),
                .transport = transport_at(table),
                .use = mirror_use_of(table, by_digest_only)};
  if (mirror.location.empty()) throw Refusal{"location: missing in a mirror"};
  check_location(mirror.location, "location");
  return mirror;
}

Registry registry_of(const toml::table& table) {
  Registry registry{.prefix = text_at(table, "prefix"),
                    .location = text_at(table, "location"),
                    .transport = transport_at(table),
                    .blocked = flag_at(table, "blocked"),
                    .mirrors = {}};
  const bool is_wildcard = registry.prefix.starts_with(wildcard);
  if (registry.prefix.empty()) registry.prefix = registry.location;
  if (registry.prefix.empty()) throw Refusal{"location and prefix: one of them is needed"};
  if (registry.location.empty() && !is_wildcard) {
    // Only a wildcard may leave its location out (containers-registries.conf(5)).
    throw Refusal{fmt::format("location: missing for prefix \"{}\"", registry.prefix)};
  }
  check_location(registry.location, "location");
  check_location(
      is_wildcard ? std::string_view(registry.prefix).substr(wildcard.size()) : registry.prefix,
      "prefix");

  const bool by_digest_only = flag_at(table, "mirror-by-digest-only");
  for (const auto* mirror : tables_at(table, "mirror")) {
    registry.mirrors.push_back(mirror_of(*mirror, by_digest_only));
  }
  return registry;
}

bool ends_component(std::string_view name, std::size_t at) {
  return at == name.size() || name[at] == '/' || name[at] == ':' || name[at] == '@';
}

// How many characters of `name` the prefix covers; 0: it doesn't match.
std::size_t match(std::string_view name, std::string_view prefix) {
  if (prefix.starts_with(wildcard)) {
    const auto suffix = prefix.substr(1);
    const auto host = name.substr(0, name.find_first_of("/:@"));
    return host.size() > suffix.size() && host.ends_with(suffix) ? host.size() : 0;
  }
  return name.starts_with(prefix) && ends_component(name, prefix.size()) ? prefix.size() : 0;
}

// The source at `location` + `rest`; empty where that leaves no repository.
std::optional<PullSource> make_source(const std::string& name, Transport transport) {
  const auto slash = name.find('/');
  if (slash == std::string::npos || slash + 1 == name.size()) return std::nullopt;
  PullSource source{.authority = name.substr(0, slash),
                    .repository = name.substr(slash + 1),
                    .transport = transport,
                    .name = name};
  // Docker trusts every registry on loopback with plain http (dockerd(8), insecure registries).
  if (is_loopback(source.authority)) source.transport = Transport::insecure;
  // Docker Hub's registry has another name than its images.
  if (source.authority == "docker.io") source.authority = "registry-1.docker.io";
  return source;
}

bool is_meant_for(MirrorUse use, const Reference& reference) {
  switch (use) {
    case MirrorUse::all:
      return true;
    case MirrorUse::digest_only:
      return reference.digest.has_value();
    case MirrorUse::tag_only:
      return !reference.digest;
  }
  return false;
}

std::optional<std::string> read_if_there(const std::string& path) {
  try {
    return os::read_file(path, max_file_bytes);
  } catch (const os::Error& error) {
    if (error.error_number() == ENOENT || error.error_number() == ENOTDIR) return std::nullopt;
    throw;
  }
}

// The *.conf files of `directory`, by name.
std::vector<std::string> drop_ins(const std::string& directory) {
  std::vector<std::string> paths;
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> stream(::opendir(directory.c_str()), close);
  if (!stream) {
    if (errno == ENOENT || errno == ENOTDIR) return paths;
    os::throw_errno("opendir", directory);
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(".conf")) paths.push_back(fmt::format("{}/{}", directory, name));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::expected<RegistriesConf, ParseError> RegistriesConf::parse(std::string_view text,
                                                                const std::string& file) {
  const auto refuse = [&](std::string_view why) {
    return std::unexpected(ParseError{fmt::format("{}: {}", file, why)});
  };
  try {
    const auto document = toml::parse(text);
    if (document.contains("registries")) {
      // Skipping it could skip a block list.
      return refuse(
          "[registries] is version 1 of the format, only version 2 ([[registry]]) is read");
    }
    RegistriesConf conf;
    for (const auto* table : tables_at(document, "registry"))
      conf.registries_.push_back(registry_of(*table));
    return conf;
  } catch (const toml::parse_error& error) {
    return refuse(fmt::format("line {}: {}", error.source().begin.line, error.description()));
  } catch (const Refusal& refusal) {
    return refuse(refusal.text);
  }
}

std::expected<RegistriesConf, ParseError> RegistriesConf::read(const std::string& path) {
  RegistriesConf all;
  if (path.empty()) return all;
  std::vector<std::string> paths = {path};
  std::ranges::copy(drop_ins(path + ".d"), std::back_inserter(paths));
  for (const auto& file : paths) {
    const auto text = read_if_there(file);
    if (!text) continue;
    auto conf = parse(*text, file);
    if (!conf) return std::unexpected(conf.error());
    for (auto& registry : conf->registries_) {
      std::erase_if(all.registries_,
                    [&](const Registry& earlier) { return earlier.prefix == registry.prefix; });
      all.registries_.push_back(std::move(registry));
    }
  }
  return all;
}

std::expected<std::vector<PullSource>, RegistriesConf::Blocked> RegistriesConf::sources(
    const Reference& reference) const {
  const std::string name = reference.name();
  const Registry* registry = nullptr;
  std::size_t matched = 0;
  for (const auto& candidate : registries_) {
    const auto length = match(name, candidate.prefix);
    // The longest prefix as written wins, so that "a.example.com" beats "*.example.com".
    if (length > 0 && (registry == nullptr || candidate.prefix.size() > registry->prefix.size())) {
      registry = &candidate;
      matched = length;
    }
  }
  std::vector<PullSource> sources;
  if (registry == nullptr) {
    sources.push_back(*make_source(name, Transport::verified_tls));
    return sources;
  }
  if (registry->blocked) return std::unexpected(Blocked{registry->prefix});

  const std::string rest = name.substr(matched);
  const auto add = [&](const std::optional<PullSource>& source) {
    if (source) sources.push_back(*source);
  };
  for (const auto& mirror : registry->mirrors) {
    if (is_meant_for(mirror.use, reference))
      add(make_source(mirror.location + rest, mirror.transport));
  }
  add(make_source(registry->location.empty() ? name : registry->location + rest,
                  registry->transport));
  return sources;
}

bool is_loopback(std::string_view authority) {
  if (authority.starts_with("[")) return authority.substr(0, authority.find(']') + 1) == "[::1]";
  const auto host = authority.substr(0, authority.find(':'));
  if (host == "localhost") return true;
  // A name such as 127.example.com is not an address: nothing but digits and three dots is.
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace daiv::images
