#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/memfd.hpp"
#include "os/service_manager.hpp"
#include "runtime/agent_program.hpp"
#include "runtime/broker.hpp"
#include "runtime/broker_lock.hpp"
#include "runtime/broker_options.hpp"
#include "runtime/front_connection.hpp"
#include "runtime/native_backend.hpp"
#include "runtime/seccomp_filter.hpp"

namespace daiv::runtime {
namespace {

// An operation ends within the limits of its own waits (start, kill), which are shorter.
constexpr std::chrono::seconds earlier_operations_limit{60};
constexpr int exit_usage = 64;    // sysexits.h
constexpr int exit_failure = 70;  // sysexits.h

NativeBackend make_backend(const BrokerOptions& options) {
  return NativeBackend(options.ranges, CgroupRoot::open(options.cgroup_root),
                       open_agent_program(options),
                       os::make_sealed_memfd("seccomp", build_seccomp_filter()));
}

void serve(const BrokerOptions& options) {
  const bool listens = options.listener_fd >= 0;
  os::UniqueFd socket(listens ? options.listener_fd : options.socket_fd);
  os::check(::fcntl(socket.get(), F_SETFD, FD_CLOEXEC), "fcntl", "the front's socket");
  ::umask(0022);
  // What whoever started us ignores is not the commands' (sandbox_init.cpp).
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);  // who goes away is an error of the write
  os::check(::chdir("/"), "chdir", "/");
  // Held until the end, by the operations too.
  const os::UniqueFd state = lock_out_earlier_brokers(options.state_dir, earlier_operations_limit);
  const os::UniqueFd runtime =
      lock_out_earlier_brokers(options.runtime_dir, earlier_operations_limit);
  NativeBackend backend = make_backend(options);
  Operations operations(options, backend);
  operations.recover();
  os::notify_manager("READY=1");
  os::Watchdog watchdog;
  if (listens) socket = accept_front(socket, options.front_uid, watchdog);
  Broker(std::move(socket), operations, watchdog).run();
}

}  // namespace
}  // namespace daiv::runtime

int main(int argc, char** argv) {
  using namespace daiv::runtime;
  const auto options = parse_broker_options(
      std::span<const char* const>(argv + 1, static_cast<std::size_t>(argc > 0 ? argc - 1 : 0)));
  if (!options) {
    fmt::print(stderr, "daiv-sandbox-broker: {}\n", options.error());
    return exit_usage;
  }
  try {
    serve(*options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "daiv-sandbox-broker: {}\n", error.what());
    return exit_failure;
  }
  return 0;
}
