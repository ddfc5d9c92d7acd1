#include "agent/java_trust.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include "agent/image_files.hpp"
#include "agent/java_store.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_store_bytes = 16U << 20;
constexpr std::size_t max_stores = 16;  // each may ask for many rounds of a digest
constexpr std::size_t max_homes_of_a_directory = 64;
constexpr std::string_view home_variable = "JAVA_HOME=";

constexpr std::array shared_stores{
    "etc/ssl/certs/java/cacerts",               // Debian, Alpine, Arch
    "etc/pki/ca-trust/extracted/java/cacerts",  // Fedora
    "var/lib/ca-certificates/java-cacerts",     // SUSE
};
// Directories of Javas: of distributions, of the images of eclipse-temurin, openjdk and oracle, of
// archives that were unpacked by hand, of SDKMAN.
constexpr std::array directories_of_homes{"usr/lib/jvm",
                                          "usr/lib64/jvm",
                                          "usr/java",
                                          "opt",
                                          "opt/java",
                                          "usr/local",
                                          "root/.sdkman/candidates/java"};
constexpr std::array stores_of_a_home{"lib/security/cacerts", "jre/lib/security/cacerts"};

// Links make many names of one store.
using Seen = std::set<std::pair<dev_t, ino_t>>;

void add_to(const os::UniqueFd& root, const std::string& path, std::string_view certificate,
            Seen& seen) {
  const auto file = find_file(root, path, O_RDONLY);
  if (!file) return;
  struct stat status{};
  os::check(::fstat(file->get(), &status), "fstat", path);
  if (status.st_size > static_cast<off_t>(max_store_bytes)) return;
  if (seen.size() >= max_stores || !seen.emplace(status.st_dev, status.st_ino).second) return;
  const std::string store = os::read_all(*file, max_store_bytes);
  const auto changed = with_java_certificate(store, certificate);
  if (changed && *changed != store) write_file(root, path, {*changed});
}

void add_to_home(const os::UniqueFd& root, const std::string& home, std::string_view certificate,
                 Seen& seen) {
  for (const std::string store : stores_of_a_home)
    add_to(root, home + "/" + store, certificate, seen);
}

// In an order that does not depend on the file system.
std::vector<std::string> list_homes(const os::UniqueFd& root, const std::string& directory) {
  const auto found = find_directory(root, directory);
  if (!found) return {};
  std::vector<std::string> names = list_names(*found, ".");
  std::ranges::sort(names);
  if (names.size() > max_homes_of_a_directory) names.resize(max_homes_of_a_directory);
  return names;
}

}  // namespace

void install_java_trust(const os::UniqueFd& root, std::string_view certificate,
                        const std::vector<std::string>& environment) {
  Seen seen;
  for (const char* store : shared_stores) add_to(root, store, certificate, seen);
  for (const std::string& line : environment)
    if (line.starts_with(home_variable) && line.size() > home_variable.size())
      add_to_home(root, line.substr(home_variable.size()), certificate, seen);
  for (const std::string directory : directories_of_homes)
    for (const std::string& name : list_homes(root, directory))
      add_to_home(root, directory + "/" + name, certificate, seen);
}

}  // namespace daiv::agent
