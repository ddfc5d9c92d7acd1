#pragma once

#include <sys/types.h>

#include <string>

#include "os/unique_fd.hpp"

// What is to be deleted goes out of the way by a rename, and is deleted later by a process that
// nobody waits for.
namespace daiv::runtime {

// Opens the directory, made with this mode (and its parents with 0755) where it is missing. Throws
// os::Error.
os::UniqueFd open_or_make(const std::string& path, mode_t mode);

// Renames `name` out of `directory` into `trash` under a name that is free. Nothing to do where it
// does not exist.
void move_to_trash(const os::UniqueFd& directory, const std::string& name,
                   const os::UniqueFd& trash);

// Deletes all that is in `trash`. What can't be deleted is passed over and stays for the next time.
void empty_trash(const os::UniqueFd& trash);

}  // namespace daiv::runtime
