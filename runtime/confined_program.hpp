#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/namespace.hpp"
#include "os/process.hpp"
#include "os/unique_fd.hpp"

// A program of the host that runs beside the broker with less than the broker's rights.
namespace daiv::runtime {

struct ConfinedProgram {
  os::UniqueFd program;  // opened for reading; executed by descriptor; a script keeps it open
  std::vector<std::string> arguments;  // the first is the program's name
  std::vector<std::string> environment;
  std::uint64_t namespaces = 0;                // CLONE_NEW*
  std::optional<os::IdExtent> user_namespace;  // with CLONE_NEWUSER: its map; it runs as root of it
  std::uint32_t uid = 0;                       // without it: whom to run as
  std::uint32_t gid = 0;
  std::vector<const os::UniqueFd*> descriptors;  // become 0, 1, 2 …; an empty one is /dev/null
  const os::UniqueFd* working_directory = nullptr;
};

// Starts it with no_new_privs, no core dumps, and no descriptor but the listed ones; it is killed
// when its parent ends. Throws os::Error where it could not be executed.
os::Child start_program(const ConfinedProgram& program);

}  // namespace daiv::runtime
