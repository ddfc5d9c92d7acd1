#include "runtime/credential_helper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/process.hpp"
#include "runtime/confined_program.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_output_bytes = 16U << 10;
constexpr std::uint32_t nobody = 65534;
constexpr std::array search_path{"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/",
                                 "/usr/bin/",        "/sbin/",          "/bin/"};

// Only system directories are looked in: the broker's own environment does not decide what root
// starts.
os::UniqueFd find_program(const std::string& name) {
  for (const char* directory : search_path) {
    os::UniqueFd fd(::open((directory + name).c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) return fd;
  }
  return {};
}

struct Output {
  std::string text;
  bool complete = false;
};

Output read_output(const os::UniqueFd& fd, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  Output output;
  std::array<std::byte, 4096> chunk{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || os::wait_for(fd, POLLIN, left) == os::Readiness::timed_out)
      return output;
    const std::size_t count = os::read_some(fd, chunk);
    if (count == 0) break;
    output.text.append(reinterpret_cast<const char*>(chunk.data()), count);
    if (output.text.size() > max_output_bytes) return output;
  }
  output.complete = true;
  return output;
}

// A helper that knows one server only may end without reading.
void name_server(const os::UniqueFd& input, const std::string& server) {
  try {
    os::write_full(input, server + "\n");
  } catch (const os::Error& error) {
    if (error.error_number() != EPIPE) throw;
  }
}

}  // namespace

Answer run_credential_helper(const RunCredentialHelper& request, std::chrono::milliseconds limit) {
  const std::string name = "docker-credential-" + request.helper;
  ConfinedProgram program;
  program.program = find_program(name);
  if (!program.program) return Failed{Failure::not_found, fmt::format("{} is not installed", name)};
  os::Pipe input = os::make_pipe();
  os::Pipe output = os::make_pipe();
  program.arguments = {name, "get"};
  program.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                         "HOME=/nonexistent", "LANG=C.UTF-8"};
  // The first process of a pid namespace takes all others with it.
  program.namespaces = CLONE_NEWPID | CLONE_NEWIPC;
  program.uid = nobody;
  program.gid = nobody;
  program.descriptors = {&input.read_end, &output.write_end, nullptr};
  os::Child child = start_program(program);
  output.write_end.reset();
  input.read_end.reset();
  name_server(input.write_end, request.server);
  input.write_end.reset();
  Output result = read_output(output.read_end, limit);
  if (!result.complete) {
    return Failed{Failure::internal,
                  fmt::format("{} took longer than {} s or printed more than {} bytes", name,
                              std::chrono::duration_cast<std::chrono::seconds>(limit).count(),
                              max_output_bytes)};
  }
  if (os::wait_for(child.pidfd(), POLLIN, limit) == os::Readiness::timed_out)
    return Failed{Failure::internal, name + " did not end"};
  const os::ExitStatus status = child.wait();
  if (!status.success())
    return Failed{Failure::not_found, fmt::format("{}: {}", name, status.describe())};
  return Credential{std::move(result.text)};
}

}  // namespace daiv::runtime
