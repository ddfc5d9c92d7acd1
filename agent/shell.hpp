#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace daiv::agent {

struct Shell {
  std::string path;  // also its argv[0], which is what `echo $0` prints
  bool bash = false;
  bool pipefail = false;
};

// Above this a command does not fit one argument (execve(2), MAX_ARG_STRLEN) and is read from
// `script_fd`.
inline constexpr std::size_t max_argument_bytes = 128U * 1024 - 1;
inline constexpr int script_fd = 9;

// The arguments that make `shell` run `command`, with pipefail where it can. A command that begins
// with '-' is none of the shell's options: it follows "--". A long one is not in the arguments; it
// is expected in a file at script_fd: bash evaluates it as if it were the argument and closes the
// descriptor; other shells source it.
std::vector<std::string> plan_arguments(const Shell& shell, const std::string& command);

// Finds the image's shell: bash in the usual places, else sh.
class ShellFinder {
public:
  // Runs argv[0] confined, with no output, and tells whether it exited with 0. May block shortly.
  using Probe = std::function<bool(const std::vector<std::string>& arguments)>;

  explicit ShellFinder(Probe probe) : probe_(std::move(probe)) {}

  // Looks again each time (a session may install one); asks whether sh takes `-o pipefail` once per
  // file.
  std::optional<Shell> find();

private:
  bool takes_pipefail(const std::string& path);

  Probe probe_;
  struct Probed {
    dev_t device;
    ino_t inode;
    std::int64_t changed_ns;
    bool pipefail;
  };
  std::optional<Probed> probed_;
};

}  // namespace daiv::agent
