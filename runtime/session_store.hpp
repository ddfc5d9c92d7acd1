#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_options.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// Who the agent of a session is: enough to find it again and to know that it is the same (pid,
// field 22 of /proc/pid/stat, and the boot, since both begin anew with the next one).
struct AgentRecord {
  pid_t pid = -1;
  std::uint64_t start_time = 0;
  std::string boot_id;

  friend bool operator==(const AgentRecord&, const AgentRecord&) = default;
};
std::string format_record(const AgentRecord& record);
std::optional<AgentRecord> parse_record(std::string_view text);

// What sessions have on disk: <state>/sessions/<id>/{upper,work,lower,root,record}, the claim on
// their range of host uids, and <runtime>/sessions/<id>/agent.sock. A session's directory without a
// record was never finished.
class SessionStore {
public:
  // Makes what is missing. Throws os::Error.
  explicit SessionStore(const BrokerOptions& options);

  // Opens the session's directory, made for this range where it is missing, and claims the range.
  // With a bound on the writable layer, that is set.
  std::expected<os::UniqueFd, Failed> open(const std::string& session, std::uint32_t uid_base);
  // Makes the socket that the front connects to; one that is left over goes.
  os::UniqueFd listen(const std::string& session);
  void remove_socket(const std::string& session);
  // Keeps the network namespace at the far end of the session's link (<runtime>/netns/<id>).
  void hold_network(const std::string& session, const os::UniqueFd& network_namespace);
  [[nodiscard]] os::UniqueFd open_network(const std::string& session) const;
  void release_network(const std::string& session);
  // Names of the sessions that one is kept for.
  [[nodiscard]] std::vector<std::string> list_networks() const;
  void write_record(const std::string& session, const AgentRecord& record);
  [[nodiscard]] std::optional<AgentRecord> find_record(const std::string& session) const;
  // Moves the session's directory into the trash and gives its range back. Nothing to do where
  // there is none.
  void discard(const std::string& session);
  // discard() where the directory has no record.
  void discard_unfinished(const std::string& session);
  // The first uid of the range that its writable layer was made for; empty where it has none.
  [[nodiscard]] std::optional<std::uint32_t> find_uid_base(const std::string& session) const;
  [[nodiscard]] bool has_writable_layer(const std::string& session) const;
  // Names of the sessions that have a directory.
  [[nodiscard]] std::vector<std::string> list() const;
  // Names of the sessions that other daemons of this host have claims for: their cgroups may lie
  // beside ours.
  [[nodiscard]] std::vector<std::string> list_foreign() const;
  // Claims the ranges of all sessions again: the claims are gone after a boot.
  void renew_claims();

private:
  void claim_for_layers(const BrokerOptions& options);
  bool claim(const std::string& session, std::uint32_t uid_base);
  [[nodiscard]] bool confirm_claim(const std::string& session, std::uint32_t uid_base) const;
  void release_claim(const std::string& session, std::uint32_t uid_base);

  std::string sessions_path_;
  std::string sockets_path_;
  std::string networks_path_;
  std::uint64_t session_disk_bytes_;
  uid_t front_uid_;
  gid_t front_gid_;
  os::UniqueFd sessions_;
  os::UniqueFd trash_;
  os::UniqueFd sockets_;
  os::UniqueFd claims_;
  os::UniqueFd networks_;
};

// /proc/sys/kernel/random/boot_id.
std::string read_boot_id();

}  // namespace daiv::runtime
