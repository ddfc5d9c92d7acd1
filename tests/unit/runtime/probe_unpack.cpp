// A stand-in for the unpacker: does what its input says and reports. "ok", "opaque", "corrupt",
// "needs parents" or "die"; makes a file that says what it can see.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "wire/codec.hpp"

namespace {

constexpr int input_fd = 3;
constexpr int result_fd = 4;
constexpr int directory_fd = 5;
constexpr int parents_fd = 6;

std::string read_input() {
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t count = ::read(input_fd, chunk.data(), chunk.size());
    if (count <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

// What can be done with the layers below: "readable", "closed" (nothing above, nothing written).
std::string look_at_parents() {
  struct stat root{};
  struct stat above{};
  if (::fstat(parents_fd, &root) != 0) return " none";
  std::string seen;
  if (::faccessat(parents_fd, "made", R_OK, 0) == 0) seen += " readable";
  ::fstatat(parents_fd, "..", &above, 0);
  const bool written = ::openat(parents_fd, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0;
  if (root.st_ino == above.st_ino && root.st_dev == above.st_dev && !written) seen += " closed";
  return seen + " " + std::to_string(root.st_uid);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string input = read_input();
  if (input == "die") return 9;
  const int file = ::openat(directory_fd, "made", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  std::string seen = std::to_string(::getpid()) + " " + std::to_string(::getuid()) + " ";
  for (int index = 1; index < argc; ++index) seen += std::string(argv[index]) + " ";
  for (int fd = 0; fd < 64; ++fd)
    if (fd != file && ::fcntl(fd, F_GETFD) >= 0) seen += std::to_string(fd);
  if (argc > 1 && std::string(argv[argc - 1]) == "--parents") seen += look_at_parents();
  static_cast<void>(!::write(file, seen.data(), seen.size()));
  daiv::wire::Writer out;
  out.u8(input == "corrupt"         ? 1
         : input == "needs parents" ? 5
                                    : 0)
      .text("told so")
      .text("sha256:" + std::string(64, '1'))
      .u64(10)
      .u64(2)
      .boolean(input == "opaque");
  static_cast<void>(!::write(result_fd, out.bytes().data(), out.bytes().size()));
  return 0;
}
