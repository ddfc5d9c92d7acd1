#include "images/unpack/layer_unpacker.hpp"

#include <fmt/format.h>
#include <iconv.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <thread>

#include "images/unpack/block_ring.hpp"
#include "images/unpack/decompressor.hpp"
#include "images/unpack/pipe_source.hpp"
#include "images/unpack/tar_reader.hpp"
#include "os/error.hpp"
#include "wire/codec.hpp"

namespace daiv::images::unpack {

namespace {

constexpr std::size_t ring_blocks = 8;
constexpr std::size_t block_bytes = std::size_t{512} << 10U;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

void check_openssl(int result, const char* call) {
  if (result != 1) throw os::Error(EIO, call, "sha256");
}

// glibc reads its list of converters at the first iconv_open(3); libarchive makes that call for
// names in PAX headers.
void load_converters() {
  const iconv_t converter = ::iconv_open("ANSI_X3.4-1968", "UTF-8");
  // iconv(3) has its error as a pointer of all ones.
  if (reinterpret_cast<std::intptr_t>(converter) != -1) ::iconv_close(converter);
}

Status status_of(const os::Error& error) {
  const bool full = error.error_number() == ENOSPC || error.error_number() == EDQUOT;
  return full ? Status::no_space : Status::internal;
}

}  // namespace

std::string encode(const Result& result) {
  wire::Writer writer;
  writer.u8(static_cast<std::uint8_t>(result.status))
      .text(result.message)
      .text(result.diff_id)
      .u64(result.unpacked_bytes)
      .u64(result.entries)
      .boolean(result.hides_below);
  return writer.take();
}

Result decode_result(std::string_view bytes) {
  wire::Reader reader(bytes);
  Result result;
  const std::uint8_t status = reader.u8();
  if (status > static_cast<std::uint8_t>(Status::needs_parents))
    throw wire::DecodeError("unknown status of an unpack");
  result.status = static_cast<Status>(status);
  result.message = reader.text();
  result.diff_id = reader.text();
  result.unpacked_bytes = reader.u64();
  result.entries = reader.u64();
  result.hides_below = reader.boolean();
  reader.finish();
  return result;
}

struct LayerUnpacker::Impl {
  Impl() : hash(EVP_MD_CTX_new()) {
    if (!hash) throw std::bad_alloc();
    check_openssl(EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
    load_converters();
  }

  void decompress(PipeSource& source, const Limits& limits) noexcept;
  void hash_blocks() noexcept;
  void write(LayerWriter& writer, const Limits& limits);
  void run(const os::UniqueFd& input, const Place& place, const Limits& limits, Result& result);
  std::string diff_id();

  BlockRing ring{ring_blocks, block_bytes};
  std::unique_ptr<EVP_MD_CTX, FreeContext> hash;
  std::exception_ptr hash_error;
};

void LayerUnpacker::Impl::decompress(PipeSource& source, const Limits& limits) noexcept {
  try {
    const auto decompressor = open_decompressor(source);
    std::uint64_t total = 0;
    for (;;) {
      const auto block = ring.begin_block();
      const std::size_t count = decompressor->read(block);
      total += count;
      if (limits.max_bytes != 0 && total > limits.max_bytes) {
        throw UnpackError(Status::too_large,
                          fmt::format("the layer is larger than {} bytes", limits.max_bytes));
      }
      if (count == 0) break;
      ring.finish_block(count);
    }
    ring.finish();
  } catch (const RingCancelled&) {
    return;
  } catch (...) {
    ring.finish(std::current_exception());
  }
}

void LayerUnpacker::Impl::hash_blocks() noexcept {
  try {
    for (;;) {
      const auto block = ring.next_block(BlockRing::Reader::hasher);
      if (block.empty()) return;
      check_openssl(EVP_DigestUpdate(hash.get(), block.data(), block.size()), "EVP_DigestUpdate");
    }
  } catch (const RingCancelled&) {
    return;
  } catch (...) {
    hash_error = std::current_exception();
    ring.cancel();
  }
}

// Reads to the end of the layer.
void LayerUnpacker::Impl::write(LayerWriter& writer, const Limits& limits) {
  TarReader reader(ring);
  while (const TarEntry* entry = reader.next_entry()) {
    if (limits.max_entries != 0 && writer.entries() >= limits.max_entries) {
      throw UnpackError(Status::too_large,
                        fmt::format("the layer has more than {} entries", limits.max_entries));
    }
    writer.add(*entry, reader);
  }
  reader.drain();
}

void LayerUnpacker::Impl::run(const os::UniqueFd& input, const Place& place, const Limits& limits,
                              Result& result) {
  PipeSource source(input);
  LayerWriter writer(place);
  std::exception_ptr error;
  {
    // Joined at the end of the block; a failure of the writer wakes both first.
    const std::jthread decompressing([&] { decompress(source, limits); });
    const std::jthread hashing([&] { hash_blocks(); });
    try {
      write(writer, limits);
    } catch (const RingCancelled&) {
      source.cancel();  // by the hasher, whose error it is
    } catch (...) {
      error = std::current_exception();
      ring.cancel();
      source.cancel();
    }
  }
  if (error) std::rethrow_exception(error);
  if (hash_error) std::rethrow_exception(hash_error);
  // Only now, with the hasher at the end too: a layer that needs its parents is a failure here, and
  // its diffID counts.
  writer.finish();
  result.hides_below = writer.hides_below();
  result.unpacked_bytes = writer.bytes();
  result.entries = writer.entries();
}

std::string LayerUnpacker::Impl::diff_id() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check_openssl(EVP_DigestFinal_ex(hash.get(), digest.data(), &size), "EVP_DigestFinal_ex");
  std::string text = "sha256:";
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest.at(i));
  return text;
}

LayerUnpacker::LayerUnpacker() : impl_(std::make_unique<Impl>()) {}

LayerUnpacker::~LayerUnpacker() = default;

Result LayerUnpacker::run(const os::UniqueFd& input, const Place& place,
                          const Limits& limits) noexcept {
  Result result;
  try {
    ::umask(0);
    impl_->run(input, place, limits, result);
    result.diff_id = impl_->diff_id();
    result.status = Status::ok;
  } catch (const UnpackError& error) {
    result.status = error.status();
    result.message = error.what();
    if (result.status == Status::needs_parents) result.diff_id = impl_->diff_id();
  } catch (const os::Error& error) {
    result.status = status_of(error);
    result.message = error.what();
  } catch (const std::exception& error) {
    result.message = error.what();
  }
  return result;
}

}  // namespace daiv::images::unpack
