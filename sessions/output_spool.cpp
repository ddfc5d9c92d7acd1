#include "sessions/output_spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::sessions {
namespace {

// Not O_TMPFILE: not every file system has it (open(2)).
os::UniqueFd open_unlinked(const std::string& directory) {
  std::string path = directory + "/output.XXXXXX";
  os::UniqueFd file(os::check(::mkostemp(path.data(), O_CLOEXEC), "mkostemp", path));
  os::check(::unlink(path.c_str()), "unlink", path);
  return file;
}

}  // namespace

bool OutputSpool::append_blocks(std::size_t more) const {
  return file_ || memory_.size() + more > memory_bytes;
}

void OutputSpool::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!append_blocks(bytes.size())) {
    memory_.append(bytes);
  } else {
    if (!file_) {
      file_ = open_unlinked(directory_);
      os::write_full(file_, memory_);
      std::string().swap(memory_);
    }
    os::write_full(file_, bytes);
  }
  size_ += bytes.size();
  last_ = bytes.back();
}

std::string OutputSpool::read(std::uint64_t offset, std::size_t max) const {
  if (offset >= size_) return {};
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(max, size_ - offset));
  if (!file_) return memory_.substr(static_cast<std::size_t>(offset), wanted);
  std::string bytes(wanted, '\0');
  std::size_t done = 0;
  while (done < wanted) {
    const auto count = os::check(os::retry_eintr([&] {
                                   return ::pread(file_.get(), bytes.data() + done, wanted - done,
                                                  static_cast<off_t>(offset + done));
                                 }),
                                 "pread", "output");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace daiv::sessions
