#include <stdexcept>

#include "agent/fs_handler.hpp"

namespace daiv::agent {

// Stands in until fs_handler.cpp is linked.
__attribute__((weak)) std::string handle_fs(std::string_view, const Config&) {
  throw std::runtime_error("file operations are not built in");
}

}  // namespace daiv::agent
