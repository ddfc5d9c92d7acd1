#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace daiv::os {

// A system call or library call that did not do its job: errno, the call and the object it was made
// on. what() reads "mount_setattr proc: Operation not permitted (EPERM)" (errno(3),
// strerrorname_np(3)).
class Error : public std::system_error {
public:
  Error(int error_number, std::string_view call, std::string_view object);

  // The text of what() without C++'s own additions.
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] int error_number() const noexcept { return code().value(); }

private:
  std::string text_;
};

// Throws Error{errno, call, object}. Call it first after the failed call: anything else may change
// errno.
[[noreturn]] void throw_errno(std::string_view call, std::string_view object);

// Returns `result`, or throws Error{errno, call, object} if it is negative.
template <typename Result>
Result check(Result result, std::string_view call, std::string_view object) {
  if (result < 0) throw_errno(call, object);
  return result;
}

// Calls `call` again for as long as a signal interrupts it (EINTR, signal(7)).
template <typename Call>
auto retry_eintr(Call&& call) {
  for (;;) {
    auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// "Operation not permitted (EPERM)".
std::string describe_errno(int error_number);

}  // namespace daiv::os
