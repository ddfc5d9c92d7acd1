#include "images/registry_certificates.hpp"

#include <dirent.h>

#include <memory>
#include <string_view>

namespace daiv::images {
namespace {

struct CloseDirectory {
  void operator()(DIR* stream) const noexcept { ::closedir(stream); }
};

void add_files_of(const std::string& directory, RegistryCertificates& found) {
  const std::unique_ptr<DIR, CloseDirectory> stream(::opendir(directory.c_str()));
  if (!stream) return;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    const std::string path = directory + "/" + std::string(name);
    if (name.ends_with(".crt")) found.authorities.push_back(path);
    if (name.ends_with(".cert") && found.client_certificate.empty())
      found.client_certificate = path;
  }
}

}  // namespace

RegistryCertificates find_certificates(const std::vector<std::string>& roots,
                                       const std::string& authority) {
  RegistryCertificates found;
  // A redirect chooses the authority: it must not lead out of the roots.
  if (authority.empty() || authority.front() == '.' || authority.contains('/')) return found;
  for (const auto& root : roots) {
    add_files_of(root + "/" + authority, found);
    if (!found.authorities.empty() || !found.client_certificate.empty()) break;
  }
  if (!found.client_certificate.empty()) {
    constexpr std::string_view ending = ".cert";
    found.client_key = found.client_certificate;
    found.client_key.replace(found.client_key.size() - ending.size(), ending.size(), ".key");
  }
  return found;
}

}  // namespace daiv::images
