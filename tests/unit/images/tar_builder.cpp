#include "tar_builder.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "images/digest.hpp"

namespace daiv::test {

namespace {

constexpr std::size_t block = 512;

std::string padded(std::string_view content) {
  std::string bytes(content);
  bytes.resize((bytes.size() + block - 1) / block * block, '\0');
  return bytes;
}

std::string header(char type, std::string_view name, std::string_view link, std::uint64_t size,
                   const TarBuilder::Options& options) {
  std::string bytes(block, '\0');
  bytes.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  bytes.replace(100, 7, fmt::format("{:07o}", options.mode));
  bytes.replace(108, 7, fmt::format("{:07o}", options.uid));
  bytes.replace(116, 7, fmt::format("{:07o}", options.gid));
  bytes.replace(124, 11, fmt::format("{:011o}", size));
  bytes.replace(136, 11, fmt::format("{:011o}", options.mtime));
  bytes.replace(148, 8, "        ");
  bytes[156] = type;
  bytes.replace(157, std::min<std::size_t>(link.size(), 100), link.substr(0, 100));
  bytes.replace(257, 5, "ustar");
  bytes.replace(263, 2, "00");
  unsigned sum = 0;
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  bytes.replace(148, 6, fmt::format("{:06o}", sum));
  bytes[154] = '\0';
  return bytes;
}

std::string pax_record(const std::string& key, const std::string& value) {
  std::size_t length = key.size() + value.size() + 3;
  while (fmt::format("{}", length).size() + key.size() + value.size() + 3 != length) {
    length = fmt::format("{}", length).size() + key.size() + value.size() + 3;
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

TarBuilder& TarBuilder::entry(char type, std::string_view name, std::string_view link,
                              std::string_view content, const Options& options) {
  if (!options.pax.empty()) {
    std::string records;
    for (const auto& [key, value] : options.pax) records += pax_record(key, value);
    bytes_ += header('x', "PaxHeader", "", records.size(), {}) + padded(records);
  }
  bytes_ += header(type, name, link, content.size(), options) + padded(content);
  return *this;
}

TarBuilder& TarBuilder::file(std::string_view name, std::string_view content,
                             const Options& options) {
  return entry('0', name, "", content, options);
}

TarBuilder& TarBuilder::directory(std::string_view name, unsigned mode) {
  Options options;
  options.mode = mode;
  return entry('5', name, "", "", options);
}

TarBuilder& TarBuilder::symlink(std::string_view name, std::string_view target) {
  return entry('2', name, target, "", {});
}

TarBuilder& TarBuilder::hard_link(std::string_view name, std::string_view target) {
  return entry('1', name, target, "", {});
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

std::string sha256(std::string_view bytes) { return images::Digest::of(bytes).string(); }

}  // namespace daiv::test
