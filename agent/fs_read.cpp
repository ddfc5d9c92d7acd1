#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "agent/fs_line_window.hpp"
#include "agent/fs_operations.hpp"
#include "agent/fs_utf8.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

constexpr std::string_view empty_sentinel = "System reminder: File exists but has empty contents";
constexpr std::string_view truncation_marker =
    "\n\n[Output truncated: exceeded the 512000-byte read limit. Continue with a larger offset or "
    "smaller limit to "
    "read the rest.]";

constexpr std::size_t piece_bytes = 256U << 10;
// Files of /proc have no size; one that never ends is cut here.
constexpr std::uint64_t max_sizeless_bytes = 16U << 20;
// Reading goes on at the speed of the disk; a file that takes longer is not for a preview.
constexpr std::chrono::seconds read_limit{20};

ReadReply failed(FsErrorCode code, std::string message) {
  ReadReply reply;
  reply.error = FsError{code, std::move(message)};
  return reply;
}

enum class Scan { text, binary, too_slow };

// Where the data at or after `at` begins; `end` where there is none, or where the file system can't
// tell (lseek(2), SEEK_DATA).
std::uint64_t next_data(const os::UniqueFd& fd, std::uint64_t at, std::uint64_t end) {
  const off_t data = ::lseek64(fd.get(), static_cast<off_t>(at), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? end : at;
  return std::min(static_cast<std::uint64_t>(data), end);
}

// Feeds the file's bytes up to `end` (its size at the start, so that one that grows is not read for
// ever).
Scan scan(const OpenFile& file, std::uint64_t end, LineWindow& window) {
  const auto deadline = std::chrono::steady_clock::now() + read_limit;
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, end + 1)));
  const bool sparse = static_cast<std::uint64_t>(file.status.st_blocks) * 512 <
                      static_cast<std::uint64_t>(file.status.st_size);
  std::uint64_t at = 0;
  while (at < end) {
    if (sparse) {
      const std::uint64_t data = next_data(file.fd, at, end);
      if (data > at && !window.feed_zeros(data - at)) return Scan::binary;
      at = data;
      if (at == end) break;
    }
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), end - at);
    const auto count =
        os::check(os::retry_eintr([&] {
                    return ::pread64(file.fd.get(), buffer.data(), wanted, static_cast<off_t>(at));
                  }),
                  "pread", "file");
    if (count == 0) break;  // cut short in the meantime
    if (!window.feed({buffer.data(), static_cast<std::size_t>(count)})) return Scan::binary;
    at += static_cast<std::uint64_t>(count);
    if (std::chrono::steady_clock::now() > deadline) return Scan::too_slow;
  }
  return window.finish() ? Scan::text : Scan::binary;
}

ReadReply binary_reply(const OpenFile& file) {
  std::string content(max_read_bytes + 1, '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const auto count =
        os::check(os::retry_eintr([&] {
                    return ::pread64(file.fd.get(), content.data() + done, content.size() - done,
                                     static_cast<off_t>(done));
                  }),
                  "pread", "file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done > max_read_bytes) {
    return failed(FsErrorCode::too_large,
                  "Binary file exceeds maximum preview size of 512000 bytes");
  }
  content.resize(done);
  ReadReply reply;
  reply.content = std::move(content);
  reply.encoding = FsEncoding::base64;
  return reply;
}

ReadReply text_reply(const ReadRequest& request, const LineWindow& window) {
  const std::uint64_t total = window.total_lines();
  if (request.offset >= total) {
    return failed(FsErrorCode::invalid_offset, "Line offset " + std::to_string(request.offset) +
                                                   " exceeds file length (" +
                                                   std::to_string(total) + " lines)");
  }
  ReadReply reply;
  reply.total_lines = total;
  if (window.window_bytes() <= max_read_bytes) {
    reply.content = window.kept();
    reply.end_line = request.offset + std::min(request.limit, total - request.offset);
    return reply;
  }
  std::string_view body(window.kept());
  body = body.substr(0, max_read_bytes - truncation_marker.size());
  body = body.substr(0, valid_utf8_prefix(body));  // not inside a character
  reply.content = std::string(body).append(truncation_marker);
  // Lines are joined with LF and hold none themselves: those that end inside the body are complete.
  reply.end_line = request.offset + static_cast<std::uint64_t>(std::ranges::count(body, '\n'));
  reply.truncated = true;
  return reply;
}

}  // namespace

ReadReply fs_read(const FsRoot& root, const ReadRequest& request) {
  const auto file = open_regular(root, request.path, O_RDONLY, DirectoryHint::use_ls);
  if (!file) return failed(file.error().code, file.error().message);
  const auto size = static_cast<std::uint64_t>(file->status.st_size);
  LineWindow window(request.offset, request.limit, max_read_bytes);
  switch (scan(*file, size == 0 ? max_sizeless_bytes : size, window)) {
    case Scan::text:
      break;
    case Scan::binary:
      return binary_reply(*file);
    case Scan::too_slow:
      return failed(FsErrorCode::too_large, "File is too large to be read: " + request.path);
  }
  if (window.total_lines() == 0) {
    ReadReply reply;
    reply.content = empty_sentinel;
    return reply;
  }
  return text_reply(request, window);
}

}  // namespace daiv::agent
