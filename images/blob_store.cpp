#include "images/blob_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10U;

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) os::throw_errno("mkdir", path);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class NoSink final : public BlobSink {
public:
  void write(std::span<const std::byte> /*bytes*/) override {}
};

}  // namespace

BlobStore::BlobStore(std::string dir, BlobRetention retention)
    : dir_(std::move(dir)), retention_(retention) {
  make_directory(dir_);
  make_directory(dir_ + "/sha256");
}

std::string BlobStore::path_of(const Digest& digest) const {
  return dir_ + "/sha256/" + std::string(digest.hex());
}

std::optional<os::UniqueFd> BlobStore::find(const Digest& digest) const {
  if (digest.algorithm() != DigestAlgorithm::sha256) return std::nullopt;
  const int fd = ::open(path_of(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  return os::UniqueFd(os::check(fd, "open", path_of(digest)));
}

void BlobStore::stream(const Digest& digest, const os::UniqueFd& blob, BlobSink& sink,
                       const std::stop_token& stop) const {
  DigestStream hash(digest.algorithm());
  std::vector<std::byte> chunk(chunk_bytes);
  while (const std::size_t count = os::read_some(blob, chunk)) {
    if (stop.stop_requested()) throw ImageError(ImageFailure::cancelled, "cancelled");
    const auto bytes = std::span(chunk).first(count);
    hash.update(bytes);
    sink.write(bytes);
  }
  if (hash.current() == digest) return;
  ::unlink(path_of(digest).c_str());
  throw ImageError(ImageFailure::internal,
                   fmt::format("the stored blob {} was damaged; try again", digest.string()));
}

void BlobStore::add(const Digest& digest, std::string_view bytes) const {
  if (!keeps() || find(digest)) return;
  NoSink nowhere;
  Tee tee(*this, nowhere);
  tee.write(std::as_bytes(std::span(bytes)));
  tee.commit(digest);
}

BlobStore::Tee::Tee(const BlobStore& store, BlobSink& next)
    : store_(store), next_(next), temporary_(store.dir_ + "/sha256/.tmp-XXXXXX") {
  file_.reset(os::check(::mkostemp(temporary_.data(), O_CLOEXEC), "mkostemp", temporary_));
}

BlobStore::Tee::~Tee() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void BlobStore::Tee::write(std::span<const std::byte> bytes) {
  os::write_full(file_, as_text(bytes));
  next_.write(bytes);
}

void BlobStore::Tee::commit(const Digest& digest) {
  if (digest.algorithm() != DigestAlgorithm::sha256) return;
  os::check(::fdatasync(file_.get()), "fdatasync", temporary_);
  os::check(::rename(temporary_.c_str(), store_.path_of(digest).c_str()), "rename", temporary_);
  temporary_.clear();
}

}  // namespace daiv::images
