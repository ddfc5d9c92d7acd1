#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/context.hpp"
#include "agent/host_stop.hpp"
#include "agent/java_trust.hpp"
#include "agent/seed_operation.hpp"
#include "agent/server.hpp"
#include "agent/trust_store.hpp"
#include "os/error.hpp"
#include "os/file_mapping.hpp"
#include "os/io.hpp"
#include "wire/sandbox_abi.hpp"

// PID 1 of a sandbox: started by the broker's child with the descriptors of wire/sandbox_abi.hpp
// and nothing else.
namespace daiv::agent {
namespace {

constexpr std::size_t max_config_bytes = 4U << 20;
constexpr std::size_t max_filter_instructions = 4096;  // BPF_MAXINSNS (linux/bpf_common.h)

os::UniqueFd take(int number) {
  os::UniqueFd fd(number);
  os::set_inherit(fd, os::Inherit::no);
  return fd;
}

// Fills 0, 1 and 2, so that no descriptor of the agent's ever is a standard stream, and returns one
// more.
os::UniqueFd open_null() {
  os::UniqueFd null = os::open_file("/dev/null", O_RDWR);
  while (null.get() <= STDERR_FILENO) {
    [[maybe_unused]] const int kept = null.release();
    null = os::open_file("/dev/null", O_RDWR);
  }
  return null;
}

std::vector<sock_filter> read_filter(const os::UniqueFd& file) {
  // All sandboxes share the memfd and with it the position of read(2), so that is not used.
  const os::FileMapping mapping(file, max_filter_instructions * sizeof(sock_filter));
  const std::string_view bytes = mapping.bytes();
  if (bytes.empty() || bytes.size() % sizeof(sock_filter) != 0 ||
      bytes.size() / sizeof(sock_filter) > max_filter_instructions)
    throw os::Error(EINVAL, "read", "seccomp filter");
  std::vector<sock_filter> filter(bytes.size() / sizeof(sock_filter));
  bytes.copy(reinterpret_cast<char*>(filter.data()), bytes.size());
  return filter;
}

Confinement confinement_of(const Config& config, std::vector<sock_filter> filter) {
  constexpr auto no_id =
      std::numeric_limits<std::uint32_t>::max();  // means "unchanged" to setresuid(2)
  if (config.run_uid == no_id || config.run_gid == no_id)
    throw os::Error(EINVAL, "config", "run uid or gid");
  return {.uid = config.run_uid,
          .gid = config.run_gid,
          .privilege_gain = config.privilege_gain,
          .max_processes = config.max_processes,
          .filter = std::move(filter)};
}

void install(const Trust& trust, const std::vector<std::string>& environment) {
  if (trust.certificate.empty()) return;
  const os::UniqueFd root = os::open_file("/", O_PATH | O_DIRECTORY);
  try {
    install_trust(root, trust);
    if (!trust.der.empty()) install_java_trust(root, trust.der, environment);
  } catch (const os::Error& error) {
    // A link that leads nowhere where a directory is needed, say. Without the CA every intercepted
    // connection would fail inside, and nobody would know why.
    throw std::runtime_error(std::string(wire::image_refuses_ca) + ": " + error.what());
  }
}

// Mapped, not read: of its largest part, the public roots, most images need nothing. Its pages are
// the kernel's again afterwards.
Config take_config(const os::UniqueFd& file) {
  const os::FileMapping mapping(file, max_config_bytes);
  Config config = Config::decode(mapping.bytes());
  install(std::exchange(config.trust, {}), config.environment);
  return config;
}

// Closes `status` when it is ready.
[[noreturn]] void serve(os::UniqueFd& status) {
  // Nobody of the sandbox may trace the agent or open its descriptors (prctl(2), PR_SET_DUMPABLE;
  // ptrace(2)).
  os::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl", "PR_SET_DUMPABLE");
  auto listener = take(wire::agent_listener_fd);
  const auto filter_file = take(wire::agent_seccomp_fd);
  auto cgroup = take(wire::agent_cgroup_fd);
  auto null = open_null();
  ::umask(022);

  Config config = take_config(take(wire::agent_config_fd));
  auto confinement = confinement_of(config, read_filter(filter_file));
  limit_bounding_set(confinement);
  Context context(std::move(config), std::move(confinement), std::move(null), std::move(cgroup));
  clean_stale_seeds(context);
  HostStop host_stop(context);
  const Server server(context, std::move(listener));
  os::write_full(status, "r");
  status.reset();
  context.loop.run();
}

}  // namespace
}  // namespace daiv::agent

int main() {
  daiv::os::UniqueFd status(daiv::wire::agent_status_fd);
  try {
    daiv::os::set_inherit(status, daiv::os::Inherit::no);
    daiv::agent::serve(status);
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (status) [[maybe_unused]]
      const auto ignored = ::write(status.get(), text.data(), text.size());
    return 1;
  }
}
