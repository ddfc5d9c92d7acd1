#pragma once

// The messages of file operations and the lexical rules for their paths, for the API: the payload
// of SessionService::fs() is encode_fs_request(), its result is read by decode_fs_reply().
#include "agent/fs_path.hpp"
#include "agent/fs_protocol.hpp"

namespace daiv::sessions {

namespace fs = agent;

}  // namespace daiv::sessions
