#pragma once

#include <span>
#include <string>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"
#include "runtime/resource_view.hpp"

// The root of a sandbox, made from inside its own mount namespace with the rights of its root.
// Nobody runs in the sandbox yet, but what the image (or an earlier life of the session) left in it
// is hostile: links, files where directories belong, directories where files belong. Every step is
// relative to a descriptor of the root. Throws os::Error.
namespace daiv::runtime {

// Attaches both mounts, mounts the overlay and returns its root (O_PATH).
os::UniqueFd mount_overlay(const os::UniqueFd& layers, const os::UniqueFd& session,
                           const std::string& options);

// /proc, /sys and /dev with what is masked and read-only in them, and with files of ours in place
// of the kernel's (runtime/resource_view.hpp).
void mount_system_directories(const os::UniqueFd& root, std::span<const ViewFile> views);

// /etc/hosts and its like, /tmp, /workspace, the home directory.
void make_session_files(const os::UniqueFd& root, const CreateSandbox& request);

}  // namespace daiv::runtime
