#include "agent/shell.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace daiv::agent {
namespace {

constexpr std::array bash_paths = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};
constexpr std::array sh_paths = {"/bin/sh", "/usr/bin/sh"};

bool is_program(const char* path) {
  struct stat status{};
  return ::stat(path, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0111) != 0;
}

}  // namespace

std::vector<std::string> plan_arguments(const Shell& shell, const std::string& command) {
  std::vector<std::string> arguments{shell.path};
  if (shell.pipefail) arguments.insert(arguments.end(), {"-o", "pipefail"});
  arguments.insert(arguments.end(), {"-c", "--"});
  if (command.size() <= max_argument_bytes)
    arguments.push_back(command);
  else if (shell.bash)
    // The expansion comes before the redirection, so the command itself does not hold the
    // descriptor.
    arguments.emplace_back("eval \"$(</proc/self/fd/9)\" 9<&-");
  else
    arguments.emplace_back(". /proc/self/fd/9");
  return arguments;
}

std::optional<Shell> ShellFinder::find() {
  for (const char* path : bash_paths)
    if (is_program(path)) return Shell{path, true, true};
  for (const char* path : sh_paths)
    if (is_program(path)) return Shell{path, false, takes_pipefail(path)};
  return std::nullopt;
}

bool ShellFinder::takes_pipefail(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return false;
  const std::int64_t changed_ns = status.st_ctim.tv_sec * 1'000'000'000LL + status.st_ctim.tv_nsec;
  if (!probed_ || probed_->device != status.st_dev || probed_->inode != status.st_ino ||
      probed_->changed_ns != changed_ns)
    probed_ = Probed{status.st_dev, status.st_ino, changed_ns,
                     probe_({path, "-o", "pipefail", "-c", ":"})};
  return probed_->pipefail;
}

}  // namespace daiv::agent
