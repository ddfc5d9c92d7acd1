#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// File operations below /workspace: the payloads of RequestType::fs and AnswerType::fs frames
// (agent/protocol.hpp). One request gets one answer of the same operation. Paths, patterns and
// contents are raw bytes: the front has decoded base64 and encodes it again, and it replaces what
// is not UTF-8 by U+FFFD where a text of a reply becomes JSON.
namespace daiv::agent {

inline constexpr std::size_t max_read_bytes = 512'000;
inline constexpr std::size_t max_grep_matches = 200;
inline constexpr std::uint32_t max_fs_excludes = 4096;

enum class FsOperation : std::uint8_t { ls = 1, read, grep, glob, write, edit, remove };

enum class FsErrorCode : std::uint8_t {
  invalid_path = 1,
  not_found,
  not_a_directory,
  is_a_directory,
  not_a_text_file,
  string_not_found,
  multiple_occurrences,
  already_exists,
  too_large,
  invalid_offset,
  permission_denied,
  exec_failed,
  invalid_pattern,
};

// The API's spelling, such as "not_found".
std::string_view to_string(FsErrorCode code);

struct FsError {
  FsErrorCode code = FsErrorCode::exec_failed;
  std::string message;  // never empty
  bool operator==(const FsError&) const = default;
};

// ---- requests: `path` as the client spelled it, after check_fs_path (agent/fs_path.hpp)
// ------------------------------

struct LsRequest {
  std::string path;
  bool operator==(const LsRequest&) const = default;
};

struct ReadRequest {
  std::string path;
  std::uint64_t offset = 0;    // lines to skip; the front clamps larger numbers to UINT64_MAX
  std::uint64_t limit = 2000;  // lines to give, at least 1
  bool operator==(const ReadRequest&) const = default;
};

struct GrepRequest {
  std::string path;
  std::string pattern;
  std::optional<std::string> glob;   // on the file's name; empty matches nothing
  std::vector<std::string> exclude;  // on folders' names, added to Config::prune_dirs
  bool operator==(const GrepRequest&) const = default;
};

struct GlobRequest {
  std::string path;
  std::string pattern;
  std::vector<std::string> exclude;
  bool operator==(const GlobRequest&) const = default;
};

struct WriteRequest {
  std::string path;
  std::string content;
  std::uint32_t mode = 0644;  // 0 to 07777
  bool operator==(const WriteRequest&) const = default;
};

enum class Replace : std::uint8_t { only_one = 0, all = 1 };

struct EditRequest {
  std::string path;
  std::string old_text;
  std::string new_text;
  Replace replace = Replace::only_one;
  bool operator==(const EditRequest&) const = default;
};

struct DeleteRequest {
  std::string path;
  bool operator==(const DeleteRequest&) const = default;
};

using FsRequest = std::variant<LsRequest, ReadRequest, GrepRequest, GlobRequest, WriteRequest,
                               EditRequest, DeleteRequest>;

std::string encode_fs_request(const FsRequest& request);
// Throws wire::DecodeError for anything that is not exactly a request.
FsRequest decode_fs_request(std::string_view payload);

// ---- answers: where `error` is set, every other field is at its default
// ----------------------------------------------

struct FsEntry {
  std::string path;
  bool is_dir = false;
  bool operator==(const FsEntry&) const = default;
};

struct LsReply {
  std::vector<FsEntry> entries;
  std::optional<FsError> error;
  bool operator==(const LsReply&) const = default;
};

enum class FsEncoding : std::uint8_t { utf8 = 0, base64 = 1 };

struct ReadReply {
  std::string content;  // text, or the file's raw bytes where `encoding` is base64
  FsEncoding encoding =
      FsEncoding::utf8;  // content and encoding are null in JSON where `error` is set
  std::optional<std::uint64_t> total_lines;
  std::optional<std::uint64_t> end_line;
  bool truncated = false;
  std::optional<FsError> error;
  bool operator==(const ReadReply&) const = default;
};

struct GrepMatch {
  std::string path;
  std::uint64_t line = 0;
  std::string text;
  bool operator==(const GrepMatch&) const = default;
};

struct GrepReply {
  std::vector<GrepMatch> matches;
  bool truncated = false;
  std::optional<FsError> error;
  bool operator==(const GrepReply&) const = default;
};

struct GlobReply {
  std::vector<FsEntry> matches;
  std::optional<FsError> error;
  bool operator==(const GlobReply&) const = default;
};

struct WriteReply {
  std::optional<FsError> error;  // `ok` in JSON is: no error
  bool operator==(const WriteReply&) const = default;
};

struct EditReply {
  std::optional<std::uint64_t> occurrences;
  std::optional<FsError> error;
  bool operator==(const EditReply&) const = default;
};

struct DeleteReply {
  bool removed = false;
  std::optional<FsError> error;
  bool operator==(const DeleteReply&) const = default;
};

using FsReply =
    std::variant<LsReply, ReadReply, GrepReply, GlobReply, WriteReply, EditReply, DeleteReply>;

std::string encode_fs_reply(const FsReply& reply);
// Throws wire::DecodeError for anything that is not exactly a reply, and for numbers that no reply
// can hold (more than max_grep_matches matches, content longer than max_read_bytes, which counts
// the marker).
FsReply decode_fs_reply(std::string_view payload);

}  // namespace daiv::agent
