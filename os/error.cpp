#include "os/error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace daiv::os {

std::string describe_errno(int error_number) {
  const char* text = strerrordesc_np(error_number);
  const char* name = strerrorname_np(error_number);
  if (text == nullptr || name == nullptr) return fmt::format("error {}", error_number);
  return fmt::format("{} ({})", text, name);
}

Error::Error(int error_number, std::string_view call, std::string_view object)
    : std::system_error(error_number, std::system_category()),
      text_(fmt::format("{} {}: {}", call, object, describe_errno(error_number))) {}

void throw_errno(std::string_view call, std::string_view object) {
  throw Error(errno, call, object);
}

}  // namespace daiv::os
