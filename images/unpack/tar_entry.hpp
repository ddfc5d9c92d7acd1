#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace daiv::images::unpack {

enum class EntryType : std::uint8_t { file, directory, symlink, hard_link, fifo, device, socket };

// One member of a layer's tar as the archive says it: nothing in it has been judged yet.
struct TarEntry {
  std::string path;
  EntryType type = EntryType::file;
  std::string link;  // target of a symlink or a hard link
  mode_t mode = 0;   // permission bits with set-id and sticky
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  timespec mtime{};
  std::uint64_t size = 0;                                   // with the holes of a sparse file
  std::vector<std::pair<std::string, std::string>> xattrs;  // name, value
};

// A piece of an entry's data; what no piece covers is a hole.
struct DataBlock {
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;
};

// Gives the data of the current entry, in order.
class EntryData {
public:
  virtual ~EntryData() = default;
  // Empty at the end. The bytes stay valid until the next call. Throws UnpackError.
  virtual std::optional<DataBlock> next_block() = 0;
};

}  // namespace daiv::images::unpack
