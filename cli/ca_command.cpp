#include "cli/ca_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "cli/control_protocol.hpp"
#include "cli/egress_authority.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::cli {
namespace {

constexpr const char* common_name = "daiv-sandbox egress CA";
constexpr std::chrono::days lifetime{3650};
constexpr mode_t certificate_mode = 0644;
constexpr mode_t key_mode = 0600;

Settings with_files(Settings settings, CaFiles files) {
  if (!files.certificate.empty()) settings.egress_ca_cert_file = std::move(files.certificate);
  if (!files.key.empty()) settings.egress_ca_key_file = std::move(files.key);
  if (settings.egress_ca_cert_file.empty() || settings.egress_ca_key_file.empty())
    throw ControlFailure(exit_usage,
                         "ca: name both files with --cert and --key, or set "
                         "DAIV_SANDBOX_EGRESS_CA_CERT_FILE and DAIV_SANDBOX_EGRESS_CA_KEY_FILE");
  return settings;
}

void make_parent_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) throw os::Error(error.value(), "mkdir", parent.string());
}

void write_new(const std::string& path, const std::string& text, mode_t mode) {
  const os::UniqueFd file = os::open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, key_mode);
  os::write_full(file, text);
  os::check(::fchmod(file.get(), mode), "fchmod", path);  // past the umask
  os::check(::fsync(file.get()), "fsync", path);
}

}  // namespace

int ca_init(const Settings& settings, CaFiles files) {
  const Settings named = with_files(settings, std::move(files));
  const proxy::PemPair pair =
      proxy::create_ca(common_name, std::chrono::system_clock::now(), lifetime);
  for (const auto& path : {named.egress_ca_key_file, named.egress_ca_cert_file})
    make_parent_of(path);
  write_new(named.egress_ca_key_file, pair.key, key_mode);
  try {
    write_new(named.egress_ca_cert_file, pair.certificate, certificate_mode);
  } catch (const os::Error&) {
    ::unlink(named.egress_ca_key_file.c_str());  // half a pair helps nobody
    throw;
  }
  fmt::print("made {} and {}\n", named.egress_ca_cert_file, named.egress_ca_key_file);
  return exit_ok;
}

int ca_repair(const Settings& settings, CaFiles files) {
  const Settings named = with_files(settings, std::move(files));
  const auto authority = load_authority(named, read_authority(named));
  if (authority->weaknesses().empty()) {
    fmt::print("{}: nothing to mend\n", named.egress_ca_cert_file);
    return exit_ok;
  }
  const std::string& path = named.egress_ca_cert_file;
  const std::string next = path + ".new";
  ::unlink(next.c_str());
  write_new(next, authority->trusted_pem(), certificate_mode);
  os::check(::link(path.c_str(), (path + ".old").c_str()), "link", path + ".old");
  os::check(std::rename(next.c_str(), path.c_str()), "rename", path);
  for (const auto& weakness : authority->weaknesses()) fmt::print("mended: {}\n", weakness);
  fmt::print("{}: written anew for the same key, the old one is {}.old\n", path, path);
  return exit_ok;
}

int ca_check(const Settings& settings, CaFiles files) {
  const Settings named = with_files(settings, std::move(files));
  const auto authority = load_authority(named, read_authority(named));
  const auto remarks = find_authority_remarks(*authority);
  for (const auto& remark : remarks) fmt::print("{}\n", remark);
  if (remarks.empty()) fmt::print("{}: ok\n", named.egress_ca_cert_file);
  return remarks.empty() ? exit_ok : exit_failed;
}

}  // namespace daiv::cli
