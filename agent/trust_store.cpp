#include "agent/trust_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "agent/image_files.hpp"
#include "os/error.hpp"
#include "os/file_mapping.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_bundle_bytes = 16U << 20;
constexpr int max_links_of_a_hash = 100;
constexpr std::string_view block_begin = "# begin daiv-sandbox egress CA\n";
constexpr std::string_view block_end = "# end daiv-sandbox egress CA\n";
constexpr std::string_view certificate_begin = "-----BEGIN CERTIFICATE-----";

const std::string main_directory = "etc/ssl/certs";
const std::string main_bundle = main_directory + "/ca-certificates.crt";
const std::string link_target = "daiv-egress.pem";

enum class When { file_exists, directory_exists };
struct Place {
  const char* path;
  When when;
};
constexpr std::array other_bundles{
    Place{"etc/pki/tls/certs/ca-bundle.crt", When::directory_exists},                   // Fedora
    Place{"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", When::directory_exists},  // Fedora
    Place{"etc/pki/tls/cert.pem", When::file_exists},                                   // Fedora
    Place{"var/lib/ca-certificates/ca-bundle.pem", When::directory_exists},             // SUSE
    Place{"etc/ssl/ca-bundle.pem", When::file_exists},                                  // SUSE
    Place{"etc/ca-certificates/extracted/tls-ca-bundle.pem", When::directory_exists},   // Arch
    Place{"etc/ssl/cert.pem", When::file_exists},                                       // Alpine
};
constexpr std::array anchor_directories{"etc/pki/ca-trust/source/anchors", "etc/pki/trust/anchors",
                                        "etc/ca-certificates/trust-source/anchors"};

// What is added to a bundle: it begins on a line of its own.
std::string make_block(std::string_view bundle, std::string_view certificate) {
  std::string block = bundle.empty() || bundle.back() == '\n' ? "" : "\n";
  return block.append(block_begin).append(certificate).append(block_end);
}

// A file with a certificate in it. Mapped: bundles are large, and most of their pages nobody looks
// at twice.
std::optional<os::FileMapping> find_bundle(const os::UniqueFd& root, const std::string& path) {
  const auto file = find_file(root, path, O_RDONLY);
  if (!file) return std::nullopt;
  try {
    os::FileMapping mapping(*file, max_bundle_bytes);
    if (mapping.bytes().find(certificate_begin) != std::string::npos) return mapping;
  } catch (const os::Error& error) {
    if (error.error_number() != EFBIG) throw;
  }
  return std::nullopt;
}

void write_if_changed(const os::UniqueFd& root, const std::string& path, const std::string& text) {
  const auto found = find_bundle(root, path);
  if (!found || found->bytes() != text) write_file(root, path, {text});
}

enum class Presence { as_read, elsewhere };

// Makes `path` a file of `bundle` and `certificate`, as with_certificate() says. `as_read`: it
// holds `bundle` now.
void write_bundle(const os::UniqueFd& root, const std::string& path, std::string_view bundle,
                  std::string_view certificate, Presence presence) {
  if (bundle.find(block_begin) == std::string::npos &&
      bundle.find(certificate) == std::string::npos)  // the rule: nothing is copied in memory
    return write_file(root, path, {bundle, make_block(bundle, certificate)});
  const std::string text = with_certificate(bundle, certificate);
  if (presence == Presence::elsewhere || text != bundle) write_file(root, path, {text});
}

void write_main_bundle(const os::UniqueFd& root, const Trust& trust) {
  const std::string_view certificate = trust.certificate;
  if (const auto own = find_bundle(root, main_bundle))
    return write_bundle(root, main_bundle, own->bytes(), certificate, Presence::as_read);
  for (const Place& place : other_bundles)
    if (const auto other = find_bundle(root, place.path))
      return write_bundle(root, main_bundle, other->bytes(), certificate, Presence::elsewhere);
  write_bundle(root, main_bundle, trust.public_roots, certificate, Presence::elsewhere);
}

void write_other_bundle(const os::UniqueFd& root, const Place& place,
                        const std::string& certificate) {
  if (const auto own = find_bundle(root, place.path))
    return write_bundle(root, place.path, own->bytes(), certificate, Presence::as_read);
  if (place.when != When::directory_exists || !find_directory(root, parent_of(place.path))) return;
  if (const auto base = find_bundle(root, main_bundle))
    write_file(root, place.path, {base->bytes()});
}

std::string read_link(const os::UniqueFd& directory, const std::string& name) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlinkat(directory.get(), name.c_str(), target.data(), target.size());
  return size < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

// Reads every link there is, some hundred.
void remove_other_links(const os::UniqueFd& directory, const std::string& hash) {
  for (const std::string& name : list_names(directory, "."))
    if (read_link(directory, name) == link_target && !name.starts_with(hash + "."))
      ::unlinkat(directory.get(), name.c_str(), 0);
}

// OpenSSL tries HASH.0, HASH.1, … until one is missing (X509_LOOKUP_hash_dir(3)).
void write_hash_link(const os::UniqueFd& root, const std::string& hash, bool had_other) {
  const os::UniqueFd directory = open_or_make_directory(root, main_directory);
  if (had_other) remove_other_links(directory, hash);
  for (int number = 0; number < max_links_of_a_hash; ++number) {
    const std::string name = hash + "." + std::to_string(number);
    if (::symlinkat(link_target.c_str(), directory.get(), name.c_str()) == 0) return;
    if (errno != EEXIST) os::throw_errno("symlinkat", name);
    if (read_link(directory, name) == link_target) return;
  }
  throw os::Error(EEXIST, "symlinkat", hash);
}

}  // namespace

std::string with_certificate(std::string_view bundle, std::string_view certificate) {
  std::string text(bundle);
  const std::size_t begin = text.find(block_begin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(block_end, begin);
  if (end != std::string::npos) text.erase(begin, end + block_end.size() - begin);
  // Also where the image's own tool has put it there from the anchor.
  if (text.find(certificate) != std::string::npos) return text;
  return text.append(make_block(text, certificate));
}

void install_trust(const os::UniqueFd& root, const Trust& trust) {
  write_main_bundle(root, trust);
  write_if_changed(root, "usr/local/share/ca-certificates/daiv-egress.crt", trust.certificate);
  for (const char* directory : anchor_directories)
    if (find_directory(root, directory))
      write_if_changed(root, directory + std::string("/daiv-egress.pem"), trust.certificate);
  for (const Place& place : other_bundles) write_other_bundle(root, place, trust.certificate);
  const std::string linked = main_directory + "/" + link_target;
  const auto earlier = find_bundle(root, linked);
  const bool had_other = earlier && earlier->bytes() != trust.certificate;
  if (!earlier || had_other) write_file(root, linked, {trust.certificate});
  write_hash_link(root, trust.hash_name, had_other);
}

}  // namespace daiv::agent
