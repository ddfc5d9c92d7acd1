#include "images/unpack/decompressor.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

#include "images/unpack/pipe_source.hpp"
#include "images/unpack/unpack_error.hpp"

namespace daiv::images::unpack {

namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t tar_block_bytes = 512;

class PlainReader final : public Decompressor {
public:
  explicit PlainReader(PipeSource& source) : source_(source) {}

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const std::size_t count = source_.read_into(out.subspan(done));
      if (count == 0) break;
      done += count;
    }
    return done;
  }

private:
  PipeSource& source_;
};

struct Refused {
  std::string_view magic;
  std::string_view name;
};
constexpr std::array refused = {
    Refused{"BZh"sv, "bzip2"},
    Refused{"\xfd"
            "7zXZ\0"sv,
            "xz"},
    Refused{"\x04\x22\x4d\x18"sv, "lz4"},
    Refused{"\x5d\x00\x00"sv, "lzma"},
    Refused{"PK\x03\x04"sv, "zip"},
};

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"sv); }

bool is_zstd(std::string_view bytes) {
  if (bytes.starts_with("\x28\xb5\x2f\xfd"sv)) return true;
  // Skippable frames: 0x184D2A50 to 0x184D2A5F, little-endian (RFC 8878 §3.1.2).
  return bytes.size() >= 4 && (static_cast<unsigned char>(bytes[0]) & 0xf0U) == 0x50U &&
         bytes.substr(1, 3) == "\x2a\x4d\x18"sv;
}

// A file that is called "BZh…" is in a tar before it is bzip2: POSIX tars say "ustar" at 257.
bool is_tar(std::string_view bytes) {
  return bytes.size() >= 262 && bytes.substr(257, 5) == "ustar";
}

}  // namespace

std::unique_ptr<Decompressor> open_decompressor(PipeSource& source) {
  const auto first = source.peek(tar_block_bytes);
  const std::string_view bytes(reinterpret_cast<const char*>(first.data()), first.size());
  if (bytes.empty())
    throw UnpackError(Status::corrupt, "the layer is empty: not even the end of a tar");
  if (is_gzip(bytes)) return make_gzip_decompressor(source);
  if (is_zstd(bytes)) return make_zstd_decompressor(source);
  if (!is_tar(bytes)) {
    for (const Refused& format : refused) {
      if (!bytes.starts_with(format.magic)) continue;
      throw UnpackError(
          Status::corrupt,
          fmt::format("the layer is compressed with {}; layers are gzip, zstd or plain tar",
                      format.name));
    }
  }
  return std::make_unique<PlainReader>(source);
}

}  // namespace daiv::images::unpack
