#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/fs_protocol.hpp"

// The lexical rules for paths of file operations. Pure: front and agent use the same functions.
namespace daiv::agent {

// What a path may name: `file` operations (read, write, edit, delete) refuse the root itself,
// `directory` operations (ls, grep, glob) take it too.
enum class FsTarget { file, directory };

// The error that the API answers for `path` (UTF-8, as the client sent it), or nothing where it may
// be used: absolute, under /workspace, without "..", NUL, CR and LF. Doubled slashes, "." and a
// trailing slash are fine.
std::optional<FsError> check_fs_path(std::string_view path, FsTarget target);

// The target that `operation` takes.
FsTarget fs_target(FsOperation operation);

// `text` as Python's repr() quotes it: 'it', "it's", '\n', '\x00', 'é'. Bytes that are no UTF-8
// become \xNN.
std::string python_repr(std::string_view text);

}  // namespace daiv::agent
