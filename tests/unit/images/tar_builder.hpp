#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace daiv::test {

// Writes tars byte by byte, right or wrong ones, as libraries would not.
class TarBuilder {
public:
  struct Options {
    unsigned mode = 0644;
    std::uint64_t uid = 0;
    std::uint64_t gid = 0;
    std::uint64_t mtime = 1'000'000'000;
    std::vector<std::pair<std::string, std::string>> pax;  // records of an extended header
  };

  TarBuilder& file(std::string_view name, std::string_view content = "") {
    return file(name, content, {});
  }
  TarBuilder& file(std::string_view name, std::string_view content, const Options& options);
  TarBuilder& directory(std::string_view name, unsigned mode = 0755);
  TarBuilder& symlink(std::string_view name, std::string_view target);
  TarBuilder& hard_link(std::string_view name, std::string_view target);
  // Any type flag of ustar: '3' character device, '6' FIFO…
  TarBuilder& entry(char type, std::string_view name, std::string_view link,
                    std::string_view content, const Options& options);

  // With the two zero blocks at the end.
  [[nodiscard]] std::string take() const { return bytes_ + std::string(1024, '\0'); }
  [[nodiscard]] const std::string& unfinished() const { return bytes_; }

private:
  std::string bytes_;
};

std::string gzip(std::string_view bytes);
std::string zstd(std::string_view bytes);
std::string sha256(std::string_view bytes);  // "sha256:…"

}  // namespace daiv::test
