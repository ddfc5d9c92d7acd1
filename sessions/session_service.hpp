#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sessions/egress_policy.hpp"

// What the API asks of sessions. All calls run on the front's io thread and are awaited; failures
// that a client must be told are SessionError, everything else is an internal error.
namespace daiv::sessions {

enum class SessionFailure {
  not_found,       // 404 "Session not found or already closed"
  busy,            // 409 "Session is busy"
  already_seeded,  // 409 "Session already seeded"
  bad_request,     // 400 with the text
  invalid_seed,    // 422 with the text
  too_large,       // 413 with the text
  unavailable,     // 503 with the text: a retry may clear it
};

class SessionError : public std::exception {
public:
  SessionError(SessionFailure failure, std::string text)
      : failure_(failure), text_(std::move(text)) {}
  [[nodiscard]] SessionFailure failure() const noexcept { return failure_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  SessionFailure failure_;
  std::string text_;
};

struct CreateOptions {
  std::string base_image;
  std::vector<std::pair<std::string, std::string>> environment;
  std::uint64_t memory_bytes = 0;      // 0: no limit
  double cpus = 0;                     // 0: no limit
  std::optional<EgressPolicy> egress;  // empty: no network
};

struct RunOptions {
  std::vector<std::string> commands;
  bool fail_fast = false;
  std::optional<std::chrono::seconds> timeout;  // empty: the server's default; 0: none
};

// A command's output: bytes as written. Small ones in memory, larger ones in an unlinked file.
class Output {
public:
  virtual ~Output() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Reads at most `max` bytes from `offset`; blocks only for the page cache.
  [[nodiscard]] virtual std::string read(std::uint64_t offset, std::size_t max) const = 0;
};

struct CommandResult {
  std::string command;
  std::unique_ptr<Output> output;
  int exit_code = 0;
};

enum class SeedField { repo, skills };

// One running seed. The API feeds it archives in the order in which the client sends them.
class SeedSink {
public:
  virtual ~SeedSink() = default;
  virtual boost::asio::awaitable<void> begin(SeedField field) = 0;
  virtual boost::asio::awaitable<void> write(
      std::string bytes) = 0;                      // waits while the sandbox is behind
  virtual boost::asio::awaitable<void> end() = 0;  // of this archive
  // All archives arrived: the seed becomes visible, or SessionError. Without it, nothing of the
  // seed stays.
  virtual boost::asio::awaitable<void> commit() = 0;
};

enum class EgressUpdate {
  done,        // holds for the next request
  no_egress,   // the session was made without
  not_served,  // its proxy is not back yet: a retry may find it
};

enum class CloseMode { keep_warm, remove };

class SessionService {
public:
  virtual ~SessionService() = default;
  virtual boost::asio::awaitable<std::string> create(
      CreateOptions options) = 0;  // the session's id
  // Starts the session where it is stopped; false where it does not exist.
  virtual boost::asio::awaitable<bool> touch(std::string id) = 0;
  virtual boost::asio::awaitable<std::vector<CommandResult>> run(std::string id,
                                                                 RunOptions options) = 0;
  // Throws not_found, busy, already_seeded before any byte of an archive is taken.
  virtual boost::asio::awaitable<std::unique_ptr<SeedSink>> begin_seed(std::string id) = 0;
  // A file operation: `request` and the result are the payloads of agent::RequestType::fs and
  // AnswerType::fs.
  virtual boost::asio::awaitable<std::string> fs(std::string id, std::string request) = 0;
  // Done also where the session does not exist.
  virtual boost::asio::awaitable<void> close(std::string id, CloseMode mode) = 0;
  // Whether sessions can have egress here.
  [[nodiscard]] virtual bool offers_egress() const = 0;
  // Sets the policy of a session with egress, whatever runs in it. Throws not_found.
  virtual boost::asio::awaitable<EgressUpdate> update_egress(std::string id,
                                                             EgressPolicy policy) = 0;
  [[nodiscard]] virtual bool exists(const std::string& id) const = 0;

  struct Counts {
    std::uint64_t running = 0;
    std::uint64_t stopped = 0;
  };
  [[nodiscard]] virtual Counts counts() const = 0;
};

}  // namespace daiv::sessions
