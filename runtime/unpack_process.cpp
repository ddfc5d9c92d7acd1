#include "runtime/unpack_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/confined_program.hpp"
#include "runtime/sandbox_plan.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_result_bytes = 64U << 10;

}  // namespace

std::string run_unpacker(const UnpackJob& job, const os::UniqueFd& input,
                         const os::UniqueFd& directory, const os::UniqueFd& parents) {
  os::Pipe result = os::make_pipe();
  ConfinedProgram program;
  program.program = os::open_file(job.program, O_RDONLY);
  program.arguments = {"daiv-sandbox-unpack", fmt::format("--max-bytes={}", job.max_bytes),
                       fmt::format("--max-entries={}", job.max_entries)};
  program.environment = os::test_environment();
  program.namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID;
  program.user_namespace = os::IdExtent{0, job.storage_base, range_size};
  program.descriptors = {nullptr, nullptr, nullptr, &input, &result.write_end, &directory};
  if (job.above_others) program.arguments.emplace_back("--above-others");
  if (parents) {
    program.arguments.emplace_back("--parents");
    program.descriptors.push_back(&parents);
  }
  program.working_directory = &directory;
  os::Child child = start_program(program);
  result.write_end.reset();
  std::string record = os::read_all(result.read_end, max_result_bytes);
  const os::ExitStatus status = child.wait();
  if (record.empty()) throw os::Error(ECHILD, "unpack", "no result, " + status.describe());
  return record;
}

}  // namespace daiv::runtime
