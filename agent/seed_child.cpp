#include "agent/seed_child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "agent/fs_worker.hpp"
#include "agent/image_files.hpp"
#include "agent/seed_extract.hpp"
#include "agent/seed_merge.hpp"
#include "agent/seed_tree.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::agent {
namespace {

constexpr std::string_view staging_prefix = ".daiv-seed-";
constexpr std::array target_names = {"repo", "skills"};
// What a decoder may take: xz and zstd streams name the size of their window, up to 4 GiB.
constexpr rlim_t max_memory_bytes = 512U << 20;
constexpr std::size_t max_seed_frame_bytes = 4U << 20;
constexpr timeval max_farewell{5, 0};

// The front closed the connection: nothing is answered.
class FrontGone : public std::exception {};

struct Frame {
  RequestType type{};
  std::string payload;
};

class FrameReader {
public:
  explicit FrameReader(os::UniqueFd connection) : connection_(std::move(connection)) {}

  std::string read(std::size_t length) {
    std::string bytes(length, '\0');
    if (os::read_full(connection_, std::as_writable_bytes(std::span(bytes))) != length)
      throw FrontGone();
    return bytes;
  }

  // Reuses the frame's buffer.
  void read(Frame& frame) {
    const auto header = parse_frame_header(read(frame_header_bytes), max_seed_frame_bytes);
    frame.type = static_cast<RequestType>(header.type);
    frame.payload.resize(header.length);
    if (os::read_full(connection_, std::as_writable_bytes(std::span(frame.payload))) !=
        header.length)
      throw FrontGone();
  }

  [[nodiscard]] const os::UniqueFd& connection() const noexcept { return connection_; }

private:
  os::UniqueFd connection_;
};

void remove_staging(const os::UniqueFd& workspace) {
  for (const auto& name : list_names(workspace, "."))
    if (name.starts_with(staging_prefix)) remove_tree(workspace, name);
}

// The folder that an archive is for; made anew where it is no directory.
os::UniqueFd open_target(const os::UniqueFd& workspace, const std::string& name) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  try {
    return os::open_at(workspace, name, flags);
  } catch (const os::Error& error) {
    if (error.error_number() != ENOENT && error.error_number() != ENOTDIR &&
        error.error_number() != ELOOP)
      throw;
  }
  ::unlinkat(workspace.get(), name.c_str(), 0);
  os::check(::mkdirat(workspace.get(), name.c_str(), 0755), "mkdirat", name);
  return os::open_at(workspace, name, flags);
}

SeedOutcome outcome_of(const os::Error& error) {
  const int number = error.error_number();
  return number == ENOSPC || number == EDQUOT ? SeedOutcome::no_space : SeedOutcome::failed;
}

// One seed from its first frame to its result. What is staged is gone with it.
class Seed {
public:
  Seed(FrameReader& frames, SeedBudget budget)
      : frames_(frames), budget_(budget), workspace_(os::open_file(".", O_RDONLY | O_DIRECTORY)) {
    remove_staging(workspace_);
    std::string name(staging_prefix);
    name += "XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) os::throw_errno("mkdtemp", name);
    staging_ = os::open_at(workspace_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;
  ~Seed() {
    try {
      remove_staging(workspace_);
    } catch (const os::Error&) {  // the next seed tries again
    }
  }

  SeedDone run() {
    SeedDone done;
    try {
      LeftOut left_out;
      while (take_archive(left_out)) {
      }
      merge();
      done.message = summarize(left_out);
    } catch (const SeedError& error) {
      done = {error.outcome(), current_, error.what()};
    } catch (const os::Error& error) {
      done = {outcome_of(error), current_, error.what()};
    } catch (const std::bad_alloc&) {
      done = {SeedOutcome::invalid_archive, current_,
              "Invalid or truncated archive: too much memory is needed to unpack it"};
    }
    return done;
  }

private:
  // False at seed_end.
  bool take_archive(LeftOut& left_out) {
    frames_.read(frame_);
    if (frame_.type == RequestType::seed_end && frame_.payload.empty()) return false;
    if (frame_.type != RequestType::seed_data)
      throw wire::DecodeError("unexpected frame in a seed");
    pending_ = SeedData::decode(frame_.payload);
    current_ = pending_->target;
    ended_ = false;
    auto& staged = staged_.at(static_cast<std::size_t>(current_));
    if (staged) throw wire::DecodeError("an archive was sent twice");
    const std::string name = target_names.at(static_cast<std::size_t>(current_));
    os::check(::mkdirat(staging_.get(), name.c_str(), 0755), "mkdirat", name);
    staged = os::open_at(staging_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    SeedTree tree(os::duplicate(staged));
    for (const auto& [reason, count] :
         extract_archive([this] { return next_bytes(); }, tree, budget_))
      left_out[reason] += count;
    return true;
  }

  std::string_view next_bytes() {
    for (;;) {
      if (!pending_) {
        if (ended_) return {};
        frames_.read(frame_);
        if (frame_.type != RequestType::seed_data)
          throw wire::DecodeError("unexpected frame in an archive");
        pending_ = SeedData::decode(frame_.payload);
        if (pending_->target != current_) throw wire::DecodeError("archives are mixed");
      }
      const SeedData data = *std::exchange(pending_, std::nullopt);
      ended_ = data.last;
      if (!data.bytes.empty()) return data.bytes;
      if (ended_) return {};
    }
  }

  void merge() {
    std::array<os::UniqueFd, target_names.size()> targets;
    SeedMerge merge;
    for (std::size_t index = 0; index < staged_.size(); ++index) {
      if (!staged_.at(index)) continue;
      current_ = static_cast<SeedTarget>(index);
      targets.at(index) = open_target(workspace_, target_names.at(index));
      merge.move(staged_.at(index), targets.at(index));
    }
    merge.keep();
  }

  FrameReader& frames_;
  SeedBudget budget_;
  os::UniqueFd workspace_;
  os::UniqueFd staging_;
  std::array<os::UniqueFd, target_names.size()> staged_;
  SeedTarget current_ = SeedTarget::repo;
  Frame frame_;
  std::optional<SeedData> pending_;
  bool ended_ = false;
};

void send_answer(const os::UniqueFd& connection, AnswerType type, std::string_view payload) {
  try {
    os::send_message(connection, make_frame(static_cast<std::uint8_t>(type), payload));
  } catch (const os::Error&) {
    return;  // the front is gone
  }
  // Closed with bytes unread the front would see ECONNRESET in the middle of its archive (unix(7)):
  // it gets the time to read the answer and close first.
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &max_farewell, sizeof max_farewell);
  std::array<char, 65536>
      ignored;  // NOLINT(cppcoreguidelines-pro-type-member-init): only ever written
  while (::recv(connection.get(), ignored.data(), ignored.size(), 0) > 0) {
  }
}

void answer_seed(FrameReader& frames, std::uint32_t length) {
  std::optional<SeedDone> done;
  try {
    if (length > max_seed_frame_bytes) throw wire::DecodeError("frame is too long");
    const auto request = SeedRequest::decode(frames.read(length));
    Seed seed(frames, {request.max_unpacked_bytes, request.max_entries});
    done = seed.run();
  } catch (const wire::DecodeError& error) {
    return send_answer(frames.connection(), AnswerType::failed, Failed{error.what()}.encode());
  } catch (const os::Error& error) {
    done = SeedDone{outcome_of(error), SeedTarget::repo, error.what()};
  }
  // Not before the staging directory is gone: the front may look at once.
  send_answer(frames.connection(), AnswerType::seed_done, done->encode());
}

bool prepare(const Context& context, std::initializer_list<int> kept) {
  if (become_worker(context, kept).step != nullptr) return false;
  ::prctl(PR_SET_NAME, "daiv-seed");
  ::umask(0);  // modes are the policy's
  const rlimit memory{max_memory_bytes, max_memory_bytes};
  return ::setrlimit(RLIMIT_AS, &memory) == 0 && ::chdir("/workspace") == 0;
}

}  // namespace

void run_seed_child(const Context& context, os::UniqueFd connection,
                    std::uint32_t length) noexcept {
  try {
    if (!prepare(context, {connection.get()})) ::_exit(1);
    FrameReader frames(std::move(connection));
    answer_seed(frames, length);
    ::_exit(0);
  } catch (const FrontGone&) {
    ::_exit(0);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

void run_seed_cleaning(const Context& context) noexcept {
  try {
    if (!prepare(context, {})) ::_exit(1);
    remove_staging(os::open_file(".", O_RDONLY | O_DIRECTORY));
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

bool has_stale_staging() noexcept {
  try {
    const auto names =
        list_names(os::open_file("/workspace", O_RDONLY | O_DIRECTORY | O_NOFOLLOW), ".");
    return std::ranges::any_of(names,
                               [](const auto& name) { return name.starts_with(staging_prefix); });
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace daiv::agent
