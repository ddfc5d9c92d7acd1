#include "runtime/native_backend.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "netns/link.hpp"
#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/namespace.hpp"
#include "os/process.hpp"
#include "runtime/processors.hpp"
#include "runtime/sandbox_init.hpp"
#include "wire/sandbox_abi.hpp"

namespace daiv::runtime {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds start_limit = 20s;
constexpr std::chrono::milliseconds kill_limit = 10s;
constexpr std::size_t max_status_bytes = 4096;

// All but those of users and of cgroups, which are made a step earlier.
constexpr std::uint64_t sandbox_namespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_CLEAR_SIGHAND;

// The ends of the pipes that stay with the creating process.
struct Channels {
  os::UniqueFd go;
  os::UniqueFd error;
  os::UniqueFd status;
};

Channels make_channels(SandboxInit& init) {
  os::Pipe go = os::make_pipe();
  os::Pipe error = os::make_pipe();
  os::Pipe status = os::make_pipe();
  init.go = std::move(go.read_end);
  init.error = std::move(error.write_end);
  init.status = std::move(status.write_end);
  return {std::move(go.write_end), std::move(error.read_end), std::move(status.read_end)};
}

enum class ProcessBound : std::uint8_t { by_cgroup, by_rlimit };

// What the session's user namespace takes over from its creator. Of a cgroup delegated to the
// session's uid only that uid may make it the root of a cgroup namespace and start processes below.
// RLIMIT_NPROC bounds the whole session only as a limit of its user namespace: the kernel takes it
// from whoever creates that one, unless it is root, and counts under the creator's effective uid
// (kernel/user_namespace.c, create_user_ns). The securebit keeps the capabilities meanwhile
// (capabilities(7), SECBIT_NO_SETUID_FIXUP); a new namespace starts without it.
void take_session_uid(const CreateSandbox& request, ProcessBound bound) {
  os::check(::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0), "prctl",
            "PR_SET_SECUREBITS");
  const std::uint32_t uid = request.uid_base;
  os::check(::setresuid(uid, uid, uid), "setresuid", std::to_string(uid));
  if (bound == ProcessBound::by_cgroup) return;
  const std::uint64_t count = max_processes(request.limits);
  const rlimit limit{count, count};
  os::check(::setrlimit(RLIMIT_NPROC, &limit), "setrlimit", "RLIMIT_NPROC");
}

Failed failed(std::string message) {
  // Where there is no room for its work directory overlayfs becomes read-only
  // (fs/overlayfs/super.c).
  constexpr std::array<std::string_view, 3> no_room{"(ENOSPC)", "(EDQUOT)", "(EROFS)"};
  const bool full = std::ranges::any_of(
      no_room, [&](std::string_view name) { return message.find(name) != std::string::npos; });
  if (full) return {Failure::no_space, std::move(message)};
  const bool is_images = message.find(wire::image_refuses_ca) != std::string::npos;
  return {is_images ? Failure::invalid : Failure::internal, std::move(message)};
}

// PID 1 on its way to the agent. The parent of this process reaps it, which lives longer; whoever
// gives up on it kills it and waits for its end.
class FirstProcess {
public:
  FirstProcess() noexcept = default;
  FirstProcess(pid_t pid, os::UniqueFd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
  FirstProcess(FirstProcess&&) noexcept = default;
  FirstProcess& operator=(FirstProcess&&) noexcept = default;
  ~FirstProcess() {
    if (!pidfd_) return;
    try {
      os::send_signal(pidfd_, SIGKILL);
      os::wait_for(pidfd_, POLLIN, kill_limit);
    } catch (const os::Error&) {  // its cgroup is killed after a failure
    }
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  os::UniqueFd release() noexcept { return std::move(pidfd_); }

private:
  pid_t pid_ = -1;
  os::UniqueFd pidfd_;
};

struct Birth {
  SandboxInit& init;
  Channels& channels;
  const SessionCgroup& cgroup;
  ProcessBound bound;
  FirstProcess first;
  std::string failure;
};

void give_birth(Birth& birth) noexcept {
  try {
    take_session_uid(birth.init.request, birth.bound);
    os::unshare(CLONE_NEWUSER | CLONE_NEWCGROUP);
    os::Child first = os::clone_process(sandbox_namespaces | CLONE_PARENT, &birth.cgroup.agent);
    if (!first) {
      birth.channels = {};  // else the pipes would never end
      run_sandbox_init(birth.init);
    }
    const pid_t pid = first.pid();
    birth.first = {pid, first.release()};
  } catch (const std::exception& failure) {
    birth.failure = failure.what();
  }
}

// Clones PID 1 from a process between, which is gone when this returns. The one between is born in
// the session's cgroup, which so becomes the root of the cgroup namespace that it makes
// (cgroup_namespaces(7)), PID 1 in its leaf below: moving a process from one cgroup to the other
// would cost a grace period of RCU. No controller is on below the session's cgroup as long as it
// holds a process itself (cgroup-v2, No Internal Process Constraint). PID 1 has memory of its own.
std::expected<FirstProcess, Failed> clone_init(SandboxInit& init, Channels& channels,
                                               const SessionCgroup& cgroup, ProcessBound bound) {
  Birth birth{init, channels, cgroup, bound, {}, {}};
  os::run_in_child(
      CLONE_PARENT, &cgroup.directory,
      [](void* argument) { give_birth(*static_cast<Birth*>(argument)); }, &birth);
  if (!birth.failure.empty()) return std::unexpected(failed(std::move(birth.failure)));
  return std::move(birth.first);
}

// Reads to the end of the stream, or to the limit's end.
std::string read_until_closed(const os::UniqueFd& fd, std::string_view what) {
  std::string text(max_status_bytes, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    if (os::wait_for(fd, POLLIN, start_limit) == os::Readiness::timed_out)
      throw os::Error(ETIMEDOUT, "wait", what);
    const std::size_t count =
        os::read_some(fd, std::as_writable_bytes(std::span(text)).subspan(size));
    if (count == 0) break;
    size += count;
  }
  text.resize(size);
  return text;
}

// The text of what went wrong on the way to the agent's first word; empty when it is ready.
std::string wait_until_ready(const Channels& channels) {
  std::string text = read_until_closed(channels.error, "sandbox set up");
  if (!text.empty()) return text;
  text = read_until_closed(channels.status, "agent");
  if (text == "r") return {};
  return text.empty() ? "the agent ended before it was ready" : "agent: " + text;
}

// While PID 1 waits for its id maps: nothing of the image runs before the link is there.
void link_to_proxy(const EgressLink& link, const os::UniqueFd& proxy_namespace, pid_t first) {
  const os::UniqueFd sandbox = os::open_file(fmt::format("/proc/{}/ns/net", first), O_RDONLY);
  netns::make_link(proxy_namespace, sandbox, {link.proxy, link.sandbox},
                   link.transparent ? netns::Transparency::on : netns::Transparency::off);
}

// The processors that a session is limited to; none where it is not.
std::vector<unsigned> limit_processors(const CreateSandbox& request, const CgroupRoot& cgroups) {
  if (request.limits.cpu_millis == 0) return {};
  const std::vector<unsigned> available = cgroups.processors();
  return choose_processors(available, count_processors(request.limits, available.size()),
                           request.uid_base / range_size);
}

SandboxInit prepare(SandboxSpec& spec, const UidRanges& ranges, const os::UniqueFd& agent_program,
                    const os::UniqueFd& seccomp) {
  SandboxInit init;
  init.overlay_options = plan_overlay_options(spec.request.layers);
  if (init.overlay_options.size() > max_mount_options_bytes)
    throw os::Error(E2BIG, "mount", "options of the overlay");
  init.layers = os::clone_mount(spec.layers, "", MOUNT_ATTR_NODEV);
  os::set_id_map(init.layers,
                 os::make_user_namespace(plan_layer_map(ranges, spec.request.uid_base)));
  init.session = os::clone_mount(spec.session, "");
  init.agent_program = os::duplicate(agent_program);
  init.agent_config = std::move(spec.agent_config);
  init.seccomp = os::duplicate(seccomp);
  init.listener = std::move(spec.listener);
  init.request = std::move(spec.request);
  return init;
}

}  // namespace

NativeBackend::NativeBackend(UidRanges ranges, CgroupRoot cgroups, os::UniqueFd agent_program,
                             os::UniqueFd seccomp)
    : ranges_(ranges),
      cgroups_(std::move(cgroups)),
      agent_program_(std::move(agent_program)),
      seccomp_(std::move(seccomp)) {}

std::expected<RunningAgent, Failed> NativeBackend::create(SandboxSpec spec) {
  std::vector<unsigned> processors = limit_processors(spec.request, cgroups_);
  const auto settings = plan_cgroup(spec.request.limits, processors, cgroups_.controllers());
  if (!settings) return std::unexpected(Failed{Failure::unsupported, settings.error()});
  const IdMaps maps = plan_id_maps(spec.request);
  SandboxInit init = prepare(spec, ranges_, agent_program_, seccomp_);
  init.processors = std::move(processors);
  const SessionCgroup cgroup =
      create_session_cgroup(cgroups_, init.request.session, *settings, init.request.uid_base);
  // As the root of a mount of its own, the directory has no ".." that leads to other sessions.
  init.cgroup = os::clone_mount(cgroup.commands, "");

  os::crash_point("broker.create.cgroup");
  Channels channels = make_channels(init);
  const auto bound =
      cgroups_.controllers().contains("pids") ? ProcessBound::by_cgroup : ProcessBound::by_rlimit;
  auto agent = clone_init(init, channels, cgroup, bound);
  if (!agent) return std::unexpected(std::move(agent.error()));
  init.status.reset();
  init.error.reset();
  os::crash_point("broker.create.cloned");
  os::write_id_maps(agent->pid(), maps.uids, maps.gids);
  enable_leaf_controllers(cgroup, cgroups_.controllers(), *settings);
  if (init.request.egress) link_to_proxy(*init.request.egress, spec.proxy_namespace, agent->pid());
  os::crash_point("broker.create.linked");
  os::write_full(channels.go, "g");
  os::crash_point("broker.create.started");
  if (std::string text = wait_until_ready(channels); !text.empty())
    return std::unexpected(failed(std::move(text)));
  if (init.request.egress) netns::settle_link(spec.proxy_namespace);
  const auto start_time = os::find_start_time(agent->pid());
  if (!start_time) return std::unexpected(failed("the agent ended as soon as it was ready"));
  const pid_t pid = agent->pid();
  return RunningAgent{pid, *start_time, agent->release()};
}

void NativeBackend::kill(const std::string& session) {
  remove_session_cgroup(cgroups_, session, kill_limit);
}

bool NativeBackend::is_running(const std::string& session) const {
  return is_populated(cgroups_, session);
}

std::vector<std::string> NativeBackend::list() const { return cgroups_.list(); }

}  // namespace daiv::runtime
