#include "cli/program_paths.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "cli/build_config.hpp"

namespace fs = std::filesystem;

namespace daiv::cli {
namespace {

void require(const std::string& path) {
  if (::access(path.c_str(), X_OK) == 0) return;
  throw std::runtime_error(
      fmt::format("{} is missing or can't be executed: is daiv-sandbox installed whole?", path));
}

}  // namespace

ProgramPaths find_programs() {
  ProgramPaths paths{libexec_dir + std::string("/daiv-sandbox-broker"),
                     libexec_dir + std::string("/daiv-sandbox-agent"),
                     libexec_dir + std::string("/daiv-sandbox-unpack")};
  const fs::path own = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path tree = own.parent_path();
  if (own.filename() == "cli" && fs::exists(tree / "runtime" / "daiv-sandbox-broker")) {
    paths = {tree / "runtime" / "daiv-sandbox-broker", tree / "agent" / "daiv-sandbox-agent",
             tree / "images" / "unpack" / "daiv-sandbox-unpack"};
  }
  require(paths.broker);
  require(paths.agent);
  require(paths.unpack);
  return paths;
}

}  // namespace daiv::cli
