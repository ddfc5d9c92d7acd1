#pragma once

#include <string>
#include <string_view>

#include "agent/protocol.hpp"

// The seam between the agent's dispatch (agent/fs_pool.cpp) and the file operations
// (agent/fs_*.cpp).
namespace daiv::agent {

// Carries out one file operation: `request_payload` is the payload of a RequestType::fs frame, the
// return value becomes the payload of the one AnswerType::fs frame (at most max_fs_answer_bytes, or
// the agent answers `failed`).
//
// Runs in a worker process that the agent forked: RUN_UID:RUN_GID, no capabilities, no_new_privs,
// non-dumpable, the commands' seccomp filter, cwd /workspace, umask 022, no standard streams but
// /dev/null. One call at a time in one worker, which lives on for later calls, so state (pools of
// threads, compiled patterns) may be kept in function-local statics. It may start threads (the
// worker never forks), but they must be idle when the call returns. The sandbox may kill or stop
// the worker at any instant: what must be atomic is made so in the file system. A request that its
// client gave up on is not cancelled in the call; the worker is killed by SIGKILL instead. An
// exception that leaves it is answered as `failed` with its what(); bad_alloc and wire::DecodeError
// are caught there.
std::string handle_fs(std::string_view request_payload, const Config& config);

}  // namespace daiv::agent
