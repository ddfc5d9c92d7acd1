#include "runtime/agent_program.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/memfd.hpp"
#include "runtime/trash.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_agent_bytes = 64U << 20;

// For the defence that is off: a file of the host that a sandbox may read and write.
os::UniqueFd copy_to_host(const BrokerOptions& options, const std::string& bytes) {
  const std::string path = options.runtime_dir + "/agent";
  open_or_make(options.runtime_dir, 0711);
  {
    const os::UniqueFd file = os::open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0777);
    os::write_full(file, bytes);
    os::check(::fchmod(file.get(), 0777), "fchmod", path);
  }
  return os::open_file(path, O_RDONLY);
}

// For the defence that is off: the same agent with an interpreter and a library to be found in the
// image.
std::string path_of(const BrokerOptions& options) {
  return os::defence_is_on(os::Defence::static_agent) ? options.agent : options.agent + "-dynamic";
}

}  // namespace

os::UniqueFd open_agent_program(const BrokerOptions& options) {
  const std::string bytes = os::read_file(path_of(options), max_agent_bytes);
  if (!os::defence_is_on(os::Defence::sealed_agent)) return copy_to_host(options, bytes);
  return os::make_sealed_memfd("agent", bytes, os::MemfdUse::program);
}

}  // namespace daiv::runtime
