#include "runtime/session_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "netns/link.hpp"
#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"
#include "runtime/directory.hpp"
#include "runtime/disk_limits.hpp"
#include "runtime/trash.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_record_bytes = 256;
constexpr int socket_backlog = 128;
constexpr std::string_view record_version = "1";

std::string claim_name(std::uint32_t uid_base) { return std::to_string(uid_base); }

void make_directory(const os::UniqueFd& parent, const std::string& name, mode_t mode, Owner owner) {
  if (::mkdirat(parent.get(), name.c_str(), mode) != 0) {
    if (errno == EEXIST) return;
    os::throw_errno("mkdirat", name);
  }
  os::check(::fchownat(parent.get(), name.c_str(), owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW),
            "fchownat", name);
}

std::optional<std::string> find_link(const os::UniqueFd& directory, const std::string& name) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(directory.get(), name.c_str(), target.data(), target.size());
  if (size >= 0) return std::string(target.data(), static_cast<std::size_t>(size));
  if (errno == ENOENT) return std::nullopt;
  os::throw_errno("readlinkat", name);
}

// An earlier record is written over, by one call: a replaced one would have to be freed. False
// where there is none.
bool overwrite_record(const os::UniqueFd& directory, const std::string& text) {
  const os::UniqueFd file(::openat(directory.get(), "record", O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return false;
    os::throw_errno("openat", "record");
  }
  const ssize_t written =
      os::check(::pwrite(file.get(), text.data(), text.size(), 0), "pwrite", "record");
  if (static_cast<std::size_t>(written) != text.size()) throw os::Error(EIO, "pwrite", "record");
  os::crash_point("broker.create.record_unfinished");
  // What is left of a longer one comes after the text, where parse_record() does not look.
  os::check(::ftruncate(file.get(), written), "ftruncate", "record");
  return true;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

std::string format_record(const AgentRecord& record) {
  return fmt::format("{} {} {} {}\n", record_version, record.pid, record.start_time,
                     record.boot_id);
}

std::optional<AgentRecord> parse_record(std::string_view text) {
  std::istringstream fields{std::string(text)};
  std::string version;
  AgentRecord record;
  if (!(fields >> version >> record.pid >> record.start_time >> record.boot_id))
    return std::nullopt;
  if (version != record_version || record.pid <= 0) return std::nullopt;
  return record;
}

std::string read_boot_id() {
  std::string text = os::read_file("/proc/sys/kernel/random/boot_id", max_record_bytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

SessionStore::SessionStore(const BrokerOptions& options)
    : sessions_path_(options.state_dir + "/sessions"),
      sockets_path_(options.runtime_dir + "/sessions"),
      networks_path_(options.runtime_dir + "/netns"),
      session_disk_bytes_(options.session_disk_bytes),
      front_uid_(options.front_uid),
      front_gid_(options.front_gid),
      sessions_(open_or_make(sessions_path_, 0700)),
      trash_(open_or_make(options.state_dir + "/trash", 0700)),
      sockets_(open_or_make(sockets_path_, 0711)),
      claims_(open_or_make(options.claims_dir, 0700)),
      networks_(open_or_make(networks_path_, 0700)) {
  claim_for_layers(options);
}

// Layers have the first range, which no session of another daemon may get. Daemons may share it:
// nothing runs under these uids, and each keeps its layers behind a directory of root's.
void SessionStore::claim_for_layers(const BrokerOptions& options) {
  const std::string name = claim_name(options.ranges.start);
  const std::string own = options.state_dir + "/layers";
  if (::symlinkat(own.c_str(), claims_.get(), name.c_str()) != 0 && errno != EEXIST)
    os::throw_errno("symlinkat", name);
}

std::optional<std::uint32_t> SessionStore::find_uid_base(const std::string& session) const {
  struct stat status{};
  if (::fstatat(sessions_.get(), (session + "/upper").c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
    return status.st_uid;
  if (errno == ENOENT) return std::nullopt;
  os::throw_errno("fstatat", session);
}

// A claim is a link named after the range's first uid that leads to the session's directory: made
// or refused in one step, readable by a person, and void when what it leads to is gone.
bool SessionStore::claim(const std::string& session, std::uint32_t uid_base) {
  const std::string name = claim_name(uid_base);
  const std::string own = sessions_path_ + "/" + session;
  if (::symlinkat(own.c_str(), claims_.get(), name.c_str()) == 0) return true;
  if (errno != EEXIST) os::throw_errno("symlinkat", name);
  // Two daemons may find the same void claim: one after the other.
  const os::UniqueFd lock = os::open_at(claims_, ".", O_RDONLY | O_DIRECTORY);
  os::check(os::retry_eintr([&] { return ::flock(lock.get(), LOCK_EX); }), "flock", "claims");
  const auto holder = find_link(claims_, name);
  if (holder == own) return true;
  if (holder && exists(*holder)) return false;
  ::unlinkat(claims_.get(), name.c_str(), 0);
  if (::symlinkat(own.c_str(), claims_.get(), name.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  os::throw_errno("symlinkat", name);
}

// A claim is void until the session's directory is there, and another daemon may have taken the
// range meanwhile; once it is there, nobody can any more.
bool SessionStore::confirm_claim(const std::string& session, std::uint32_t uid_base) const {
  const os::UniqueFd lock = os::open_at(claims_, ".", O_RDONLY | O_DIRECTORY);
  os::check(os::retry_eintr([&] { return ::flock(lock.get(), LOCK_EX); }), "flock", "claims");
  return find_link(claims_, claim_name(uid_base)) == sessions_path_ + "/" + session;
}

void SessionStore::release_claim(const std::string& session, std::uint32_t uid_base) {
  const std::string name = claim_name(uid_base);
  if (find_link(claims_, name) == sessions_path_ + "/" + session)
    ::unlinkat(claims_.get(), name.c_str(), 0);
}

std::expected<os::UniqueFd, Failed> SessionStore::open(const std::string& session,
                                                       std::uint32_t uid_base) {
  const auto earlier = find_uid_base(session);
  if (earlier && *earlier != uid_base)
    return std::unexpected(Failed{Failure::invalid, "the session has another range of uids"});
  const auto taken = [uid_base] {
    return std::unexpected(
        Failed{Failure::range_taken,
               fmt::format("the uids from {} on belong to another session", uid_base)});
  };
  if (!claim(session, uid_base)) return taken();
  // The session's root must pass through this directory while it mounts; /…/sessions keeps
  // everybody else out.
  os::crash_point("broker.create.claimed");
  make_directory(sessions_, session, 0711, {});
  if (!confirm_claim(session, uid_base)) return taken();
  os::UniqueFd directory = os::open_at(sessions_, session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const Owner owner{uid_base, uid_base};
  make_directory(directory, "upper", 0755, owner);
  make_directory(directory, "work", 0700, owner);
  make_directory(directory, "lower", 0700, {});
  make_directory(directory, "root", 0700, {});
  if (session_disk_bytes_ != 0) {
    const auto layer = earlier ? WritableLayer::kept : WritableLayer::fresh;
    if (auto bound = bound_writable_layer(directory, uid_base, session_disk_bytes_, layer); !bound)
      return std::unexpected(std::move(bound.error()));
  }
  return directory;
}

os::UniqueFd SessionStore::listen(const std::string& session) {
  remove_socket(session);
  make_directory(sockets_, session, 0700, {front_uid_, front_gid_});
  const std::string path = sockets_path_ + "/" + session + "/agent.sock";
  os::UniqueFd listener = os::listen_unix(path, os::SocketKind::stream, socket_backlog);
  const os::UniqueFd directory = os::open_at(sockets_, session, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  os::check(::fchownat(directory.get(), "agent.sock", front_uid_, front_gid_, AT_SYMLINK_NOFOLLOW),
            "fchownat", "agent.sock");
  os::check(::fchmodat(directory.get(), "agent.sock", 0600, 0), "fchmodat", "agent.sock");
  return listener;
}

void SessionStore::remove_socket(const std::string& session) { remove_tree(sockets_, session); }

void SessionStore::hold_network(const std::string& session, const os::UniqueFd& network_namespace) {
  netns::hold_namespace(network_namespace, networks_path_ + "/" + session);
}

os::UniqueFd SessionStore::open_network(const std::string& session) const {
  return netns::open_held_namespace(networks_path_ + "/" + session);
}

void SessionStore::release_network(const std::string& session) {
  netns::release_namespace(networks_path_ + "/" + session);
}

std::vector<std::string> SessionStore::list_networks() const { return list_entries(networks_); }

void SessionStore::write_record(const std::string& session, const AgentRecord& record) {
  const os::UniqueFd directory =
      os::open_at(sessions_, session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (overwrite_record(directory, format_record(record))) return;
  {
    const os::UniqueFd file =
        os::open_at(directory, "record.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    os::write_full(file, format_record(record));
  }
  os::crash_point("broker.create.record_unfinished");
  os::check(::renameat(directory.get(), "record.new", directory.get(), "record"), "renameat",
            "record");
}

std::optional<AgentRecord> SessionStore::find_record(const std::string& session) const {
  const os::UniqueFd file(
      ::openat(sessions_.get(), (session + "/record").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    os::throw_errno("openat", "record");
  }
  return parse_record(os::read_all(file, max_record_bytes));
}

void SessionStore::discard(const std::string& session) {
  const auto uid_base = find_uid_base(session);
  move_to_trash(sessions_, session, trash_);
  os::crash_point("broker.remove.in_trash");
  if (uid_base) release_claim(session, *uid_base);
}

void SessionStore::discard_unfinished(const std::string& session) {
  if (::faccessat(sessions_.get(), (session + "/record").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return;
  if (errno != ENOENT) os::throw_errno("faccessat", session);
  discard(session);
}

bool SessionStore::has_writable_layer(const std::string& session) const {
  return find_uid_base(session).has_value();
}

std::vector<std::string> SessionStore::list() const { return list_directories(sessions_); }

std::vector<std::string> SessionStore::list_foreign() const {
  std::vector<std::string> names;
  for (const std::string& claim : list_entries(claims_)) {
    const auto holder = find_link(claims_, claim);
    if (!holder || !exists(*holder)) continue;
    const auto slash = holder->rfind('/');
    if (holder->substr(0, slash) != sessions_path_) names.push_back(holder->substr(slash + 1));
  }
  return names;
}

void SessionStore::renew_claims() {
  for (const std::string& session : list())
    if (const auto uid_base = find_uid_base(session)) claim(session, *uid_base);
  // Those of sessions of ours that a crash left without a directory; as in claim(), one at a time.
  const os::UniqueFd lock = os::open_at(claims_, ".", O_RDONLY | O_DIRECTORY);
  os::check(os::retry_eintr([&] { return ::flock(lock.get(), LOCK_EX); }), "flock", "claims");
  for (const std::string& name : list_entries(claims_)) {
    const auto holder = find_link(claims_, name);
    if (holder && holder->starts_with(sessions_path_ + "/") && !exists(*holder))
      ::unlinkat(claims_.get(), name.c_str(), 0);
  }
}

}  // namespace daiv::runtime
