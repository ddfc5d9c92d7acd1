#include <fmt/format.h>
#include <zstd.h>

#include <new>

#include "images/unpack/decompressor.hpp"
#include "images/unpack/pipe_source.hpp"
#include "images/unpack/unpack_error.hpp"

namespace daiv::images::unpack {

namespace {

constexpr int max_window_log = 27;  // 128 MiB: what zstd itself takes unless told otherwise

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

// zstd (RFC 8878): frames follow one another, skippable ones (zstd:chunked has its table of
// contents there) give nothing.
class ZstdDecompressor final : public Decompressor {
public:
  explicit ZstdDecompressor(PipeSource& source) : source_(source), context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
    check(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, max_window_log));
  }

  std::size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size && !ended_) {
      const bool at_end = source_.buffered().empty() && !source_.read_more();
      if (at_end && !inside_frame_) {
        ended_ = true;
        break;
      }
      const auto ready = source_.buffered();
      ZSTD_inBuffer input{ready.data(), ready.size(), 0};
      const std::size_t before = output.pos;
      const std::size_t rest = ZSTD_decompressStream(context_.get(), &output, &input);
      check(rest);
      source_.consume(input.pos);
      inside_frame_ = rest != 0;
      if (at_end && inside_frame_ && output.pos == before) {
        throw UnpackError(Status::corrupt, "the zstd data is cut off");
      }
    }
    return output.pos;
  }

private:
  static void check(std::size_t result) {
    if (ZSTD_isError(result) == 0) return;
    throw UnpackError(Status::corrupt,
                      fmt::format("the zstd data is damaged: {}", ZSTD_getErrorName(result)));
  }

  PipeSource& source_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  bool inside_frame_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(PipeSource& source) {
  return std::make_unique<ZstdDecompressor>(source);
}

}  // namespace daiv::images::unpack
