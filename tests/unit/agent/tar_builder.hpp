#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace daiv::agent::test {

// Writes ustar archives, right ones and wrong ones, member by member (POSIX pax, "ustar Interchange
// Format").
class TarBuilder {
public:
  struct Extra {
    unsigned mode = 0644;
    std::string link;
    std::uint64_t modified = 1'600'000'000;
  };

  TarBuilder& member(char type, std::string_view name, std::string_view content,
                     const Extra& extra);
  TarBuilder& file(std::string_view name, std::string_view content) {
    return member('0', name, content, {});
  }
  TarBuilder& file(std::string_view name, std::string_view content, unsigned mode) {
    return member('0', name, content, {.mode = mode, .link = {}});
  }
  TarBuilder& directory(std::string_view name, unsigned mode = 0755) {
    return member('5', name, {}, {.mode = mode, .link = {}});
  }
  TarBuilder& symlink(std::string_view name, std::string_view target) {
    return member('2', name, {}, {.mode = 0777, .link = std::string(target)});
  }
  // A pax header ('x': for the next member, 'g': for all) with one record.
  TarBuilder& pax(char type, std::string_view key, std::string_view value);

  // With the end mark.
  [[nodiscard]] std::string finish() const { return bytes_ + std::string(1024, '\0'); }
  [[nodiscard]] const std::string& unfinished() const { return bytes_; }

private:
  std::string bytes_;
};

// What `command` (gzip, xz, …) makes of the bytes.
std::string filter_through(const std::string& command, std::string_view bytes);

}  // namespace daiv::agent::test
