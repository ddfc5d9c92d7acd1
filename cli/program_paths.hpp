#pragma once

#include <string>

namespace daiv::cli {

// The programs that the daemon starts.
struct ProgramPaths {
  std::string broker;
  std::string agent;
  std::string unpack;
};

// The one rule for where they are: beside each other in the libexec directory; or, where this
// program runs from a build tree (its directory is called cli and ../runtime has a broker), where
// the build puts them. Throws std::runtime_error that names what is missing.
ProgramPaths find_programs();

}  // namespace daiv::cli
