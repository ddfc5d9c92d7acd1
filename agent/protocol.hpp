#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/codec.hpp"

// What the front and the agent (PID 1 of a sandbox) say to each other over the session's unix
// stream socket.
//
// A frame is: u32 length of the payload (little-endian), u8 type, payload. One connection carries
// one operation: the front sends one request, the agent answers with the frames listed there, then
// the front closes. A connection that the front closes before the last answer cancels the
// operation: the agent kills what it started for it. Everything the agent says is untrusted:
// decode() throws wire::DecodeError for anything that is not exactly a message.
namespace daiv::agent {

inline constexpr std::size_t frame_header_bytes = 5;
inline constexpr std::size_t max_answer_bytes = 4U << 20;  // agent → front, one frame
inline constexpr std::size_t max_fs_answer_bytes =
    32U << 20;  // the same of AnswerType::fs (listings of large trees)
inline constexpr std::size_t max_request_bytes = 64U << 20;  // front → agent, one frame
inline constexpr std::size_t chunk_bytes =
    256U << 10;  // what the sender of a stream puts into one frame

// ---- configuration: written by the front into a memfd, read once by the agent when it starts
// -------------------------

enum class PrivilegeGain : std::uint8_t {
  denied,       // no_new_privs, empty capability sets
  setuid_only,  // DAIV_SANDBOX_NO_NEW_PRIVS=false: setuid programs of the image work, inside the
                // session's user namespace
};

// A CA whose certificate commands are to trust (agent/trust_store.hpp).
struct Trust {
  std::string certificate;  // PEM of one certificate; empty: nothing is installed
  std::string hash_name;    // eight hexadecimal digits: the subject's hash, as OpenSSL looks it up
  std::string der;          // the certificate again, for the key stores of Java
  std::string_view public_roots;  // PEM; for images that have no bundle of their own. Borrowed:
                                  // most images have one, and it is large
};

struct Config {
  std::uint32_t run_uid = 1000;
  std::uint32_t run_gid = 1000;
  PrivilegeGain privilege_gain = PrivilegeGain::denied;
  std::uint32_t max_processes = 0;  // RLIMIT_NPROC of commands; 0: bounded by the cgroup's pids.max
  std::vector<std::string> environment;  // NAME=value, the whole environment of every command
  std::vector<std::string> prune_dirs;   // DAIV_SANDBOX_FS_PRUNE_DIRS: basenames or globs
  Trust trust;

  [[nodiscard]] std::string encode() const;
  // `trust.public_roots` lies in `bytes`.
  static Config decode(std::string_view bytes);
};

// ---- requests
// --------------------------------------------------------------------------------------------------------

enum class RequestType : std::uint8_t {
  exec = 1,
  seed = 2,
  seed_data = 3,
  seed_end = 4,
  terminate = 5,
  status = 6,
  fs = 16
};

// Runs one command with the session's shell as a process group of its own in /workspace/repo.
// Answers: output*, then exec_done.
struct ExecRequest {
  std::string command;                   // any bytes but NUL, any length up to max_request_bytes
  std::chrono::milliseconds timeout{0};  // 0: none
  std::uint64_t max_output_bytes =
      0;  // what is sent of the output; the rest is read, counted and dropped

  [[nodiscard]] std::string encode() const;
  static ExecRequest decode(std::string_view payload);
};

// Begins a seed. It is followed, on the same connection, by the archives in any order, each as
// seed_data frames (first the archive's bytes, then one seed_data with `last`), then seed_end.
// Answer: one seed_done, at the end or as soon as the seed is known to fail (the front then stops
// sending). All or nothing: what is visible under /workspace changes only after seed_end, when all
// archives are right.
struct SeedRequest {
  std::uint64_t max_unpacked_bytes = 0;
  std::uint64_t max_entries = 0;

  [[nodiscard]] std::string encode() const;
  static SeedRequest decode(std::string_view payload);
};

enum class SeedTarget : std::uint8_t { repo = 0, skills = 1 };

struct SeedData {
  SeedTarget target = SeedTarget::repo;
  bool last = false;  // no more bytes of this archive
  std::string_view bytes;

  [[nodiscard]] std::string encode() const;
  static SeedData decode(std::string_view payload);  // `bytes` borrows from `payload`
};

// Ends every process of the session: SIGTERM, SIGKILL after `grace`. Answers done when only the
// agent is left.
struct TerminateRequest {
  std::chrono::milliseconds grace{0};

  [[nodiscard]] std::string encode() const;
  static TerminateRequest decode(std::string_view payload);
};

// ---- answers
// ---------------------------------------------------------------------------------------------------------

enum class AnswerType : std::uint8_t {
  output = 1,
  exec_done = 2,
  seed_done = 3,
  done = 4,
  status = 5,
  failed = 6,
  fs = 16
};

// Bytes of the command's standard output and error, in order, as the payload of an `output` frame.

enum class ExecOutcome : std::uint8_t {
  exited,
  signalled,
  timed_out,
  cannot_start,
  out_of_memory,  // the kernel ended it for want of memory
};

struct ExecDone {
  ExecOutcome outcome = ExecOutcome::exited;
  std::int32_t code = 0;           // exit status, or the signal's number
  std::uint64_t output_bytes = 0;  // all that the command wrote, sent or not
  std::string
      message;  // cannot_start: one plain line for the user, such as "no shell in the image"

  [[nodiscard]] std::string encode() const;
  static ExecDone decode(std::string_view payload);
};

enum class SeedOutcome : std::uint8_t {
  seeded,
  invalid_archive,  // the caller's mistake: 422
  too_large,        // a limit was passed: 413
  no_space,         // ENOSPC or EDQUOT: 503
  failed,           // ours: 500
};

struct SeedDone {
  SeedOutcome outcome = SeedOutcome::seeded;
  SeedTarget target = SeedTarget::repo;  // which archive was wrong
  std::string message;  // for the user; for `seeded` a summary of what was left out, may be empty

  [[nodiscard]] std::string encode() const;
  static SeedDone decode(std::string_view payload);
};

struct Status {
  std::string shell;  // empty where the image has none
  bool pipefail = false;
  std::uint32_t processes = 0;  // without the agent itself

  [[nodiscard]] std::string encode() const;
  static Status decode(std::string_view payload);
};

// `done` has no payload. `failed` is for requests that could not be carried out at all.
struct Failed {
  std::string message;

  [[nodiscard]] std::string encode() const;
  static Failed decode(std::string_view payload);
};

// ---- framing
// ---------------------------------------------------------------------------------------------------------

struct FrameHeader {
  std::uint32_t length = 0;
  std::uint8_t type = 0;
};

// The header and the payload as they go over the wire.
std::string make_frame(std::uint8_t type, std::string_view payload);

// Decodes exactly frame_header_bytes. Throws wire::DecodeError where the length is above
// `max_bytes`.
FrameHeader parse_frame_header(std::string_view bytes, std::size_t max_bytes);

}  // namespace daiv::agent
