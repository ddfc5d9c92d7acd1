#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "images/digest.hpp"
#include "images/registry_client.hpp"
#include "os/unique_fd.hpp"

namespace daiv::images {

inline constexpr std::size_t max_archive_members = 100'000;

// The members of an image archive, spooled: a tar may have them in any order, and may come from a
// pipe. Each lies in a file without a name (O_TMPFILE), so that nothing stays whatever happens.
class LoadArchive {
public:
  struct Member {
    os::UniqueFd file;
    std::uint64_t size = 0;
    std::optional<Digest> digest;  // sha256 of its bytes
  };

  // Reads the whole tar (plain, gzip, zstd, xz or bzip2) into files in `spool_dir`.
  // Throws ImageError{invalid_image} for what is no tar or has parts twice, {cancelled} after a
  // stop; os::Error.
  LoadArchive(const os::UniqueFd& input, const std::string& spool_dir, const std::stop_token& stop);

  // The member at `path`, through symlinks between members (older `docker save`); null where there
  // is none.
  [[nodiscard]] const Member* find(const std::string& path) const;
  // Its bytes. Throws ImageError{invalid_image} where it is missing or longer than `max_bytes`.
  [[nodiscard]] std::string read(const std::string& path, std::size_t max_bytes) const;

private:
  std::map<std::string, Member> members_;
  std::map<std::string, std::string> links_;
};

// Writes a member's bytes into the sink. Throws ImageError{cancelled} after a stop, os::Error, what
// the sink throws.
void stream_member(const LoadArchive::Member& member, BlobSink& sink, const std::stop_token& stop);

}  // namespace daiv::images
