#pragma once

#include <sys/types.h>

#include <string>

namespace daiv::cli {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

// The user `name` of this host. Throws std::runtime_error with the command that makes it where
// there is none, and for a user that is root.
User find_user(const std::string& name);

// Becomes `user` for good: no groups but its own, no capability in any set, no_new_privs, not
// dumpable (proc(5), so that nobody of that uid reads keys from memory). Checks that it is so.
// Throws os::Error.
void become_user(const User& user);

// The same for a process that was started as `user`: it has nothing to give up but what a service
// manager left it, and refuses to go on where that is a capability. Throws os::Error.
void stay_user(const User& user);

// Lets this process have as many descriptors as the hard limit allows: each session costs a few.
void raise_descriptor_limit();

}  // namespace daiv::cli
