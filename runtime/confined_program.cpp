#include "runtime/confined_program.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/capabilities.hpp"

namespace daiv::runtime {
namespace {

constexpr int first_high_fd = 64;
constexpr std::size_t max_error_bytes = 1024;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

void change_ids(const ConfinedProgram& program) {
  const bool mapped = program.user_namespace.has_value();
  const std::uint32_t uid = mapped ? 0 : program.uid;
  const std::uint32_t gid = mapped ? 0 : program.gid;
  os::check(::setgroups(0, nullptr), "setgroups", "none");
  os::check(::setresgid(gid, gid, gid), "setresgid", std::to_string(gid));
  os::check(::setresuid(uid, uid, uid), "setresuid", std::to_string(uid));
}

// The interpreter opens a script again by the descriptor that was executed, so that one must stay
// open (execveat(2), BUGS).
bool is_script(const os::UniqueFd& program) {
  std::array<char, 2> start{};
  return ::pread(program.get(), start.data(), start.size(), 0) == 2 && start[0] == '#' &&
         start[1] == '!';
}

// Returns where the program and the error pipe are afterwards: right above the listed ones.
std::pair<int, int> place_descriptors(const ConfinedProgram& program, const os::UniqueFd& error) {
  const os::UniqueFd null = os::open_file("/dev/null", O_RDWR);
  std::vector<int> sources;
  sources.reserve(program.descriptors.size() + 2);
  for (const os::UniqueFd* fd : program.descriptors)
    sources.push_back(fd != nullptr && *fd ? fd->get() : null.get());
  const auto listed = sources.size();
  sources.push_back(program.program.get());
  sources.push_back(error.get());
  for (int& fd : sources)
    fd = os::check(::fcntl(fd, F_DUPFD_CLOEXEC, first_high_fd), "fcntl", "F_DUPFD_CLOEXEC");
  const auto inherited = listed + (is_script(program.program) ? 1 : 0);
  for (std::size_t index = 0; index < sources.size(); ++index) {
    os::check(::dup3(sources[index], static_cast<int>(index), index < inherited ? 0 : O_CLOEXEC),
              "dup3", std::to_string(index));
  }
  os::close_from(static_cast<int>(sources.size()));
  return {static_cast<int>(listed), static_cast<int>(listed) + 1};
}

[[noreturn]] void run(const ConfinedProgram& program, const os::UniqueFd& go,
                      const os::UniqueFd& error) noexcept {
  int error_fd = error.get();
  try {
    std::vector<std::string> arguments = program.arguments;
    std::vector<std::string> environment = program.environment;
    std::array<std::byte, 1> signal{};
    if (os::read_full(go, signal) != 1) throw os::Error(EPIPE, "wait", "id maps");
    if (program.working_directory != nullptr)
      os::check(::fchdir(program.working_directory->get()), "fchdir", "working directory");
    change_ids(program);
    os::check(::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl", "PR_SET_PDEATHSIG");
    const rlimit no_core{0, 0};
    os::check(::setrlimit(RLIMIT_CORE, &no_core), "setrlimit", "RLIMIT_CORE");
    set_no_new_privs();
    ::signal(SIGPIPE, SIG_DFL);  // ignored by the broker
    ::setsid();
    const auto [program_fd, new_error_fd] = place_descriptors(program, error);
    error_fd = new_error_fd;
    ::syscall(SYS_execveat, program_fd, "", pointers(arguments).data(),
              pointers(environment).data(), AT_EMPTY_PATH);
    os::throw_errno("execveat", program.arguments.front());
  } catch (const std::exception& failure) {
    const std::string_view text = failure.what();
    static_cast<void>(!::write(error_fd, text.data(), text.size()));
  }
  ::_exit(127);
}

}  // namespace

os::Child start_program(const ConfinedProgram& program) {
  os::Pipe go = os::make_pipe();
  os::Pipe error = os::make_pipe();
  os::Child child = os::clone_process(program.namespaces);
  if (!child) {
    go.write_end.reset();
    run(program, go.read_end, error.write_end);
  }
  error.write_end.reset();
  if (program.user_namespace) {
    const std::array map{*program.user_namespace};
    os::write_id_maps(child.pid(), map, map);
  }
  os::write_full(go.write_end, "g");
  const std::string text = os::read_all(error.read_end, max_error_bytes);
  if (!text.empty()) throw os::Error(ECHILD, "start", text);
  return child;
}

}  // namespace daiv::runtime
