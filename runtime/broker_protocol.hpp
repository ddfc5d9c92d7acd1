#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "os/network_namespace.hpp"
#include "os/socket.hpp"
#include "wire/codec.hpp"

// What the front asks of the broker: fixed messages over a SEQPACKET socket, descriptors attached.
// The broker checks every field again (names by their alphabet, ids by their range) before it acts,
// and answers each request exactly once, in any order. Messages never hold bytes from a client, an
// image or a registry, apart from the sealed memfd with the agent's configuration, which the broker
// passes on unread.
namespace daiv::runtime {

inline constexpr std::size_t max_broker_message_bytes = 64U << 10;
inline constexpr std::size_t max_layers = 500;  // the kernel's own limit of overlayfs

// Limits of a session; 0 means none.
struct Limits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t cpu_millis = 0;  // thousandths of a processor
  std::uint64_t pids = 0;
};

// The addresses of a sandbox with egress: the only one that it can reach, and its own. IPv4 in host
// byte order; they must be the pair that netns::plan_link() gives to the session's uid range.
struct EgressLink {
  std::uint32_t proxy = 0;
  std::uint32_t sandbox = 0;
  std::uint16_t port = 0;  // of the proxy's listening socket
  // Programs that know no proxy reach it, too (netns/transparent_plan.hpp); where the kernel can't,
  // the answer has no sockets for them.
  bool transparent = false;

  friend bool operator==(const EgressLink&, const EgressLink&) = default;
};

// A session's id: 32 lower-case hexadecimal digits or a UUID in its usual form; nothing else passes
// the broker. A layer's name: six of [a-z0-9], chosen by the image store: short, since all names go
// into one mount option page.

// Makes a sandbox and starts its agent. `fds`: the agent's configuration (sealed memfd).
// Where the session's directory exists already, its writable layer is used again (a reopen).
// Answer: Created with a pidfd of the agent, when the agent listens on <runtime
// dir>/sessions/<id>/agent.sock; with `egress` the proxy's sockets at the other end of the
// sandbox's only link follow (netns/proxy_sockets.hpp): one, or five in transparent mode.
struct CreateSandbox {
  std::string session;
  std::uint32_t uid_base = 0;       // first host uid of the session's range of 65,536
  std::vector<std::string> layers;  // bottom first
  std::uint32_t run_uid = 0;
  std::uint32_t run_gid = 0;
  std::string hostname;
  Limits limits;
  bool no_new_privs = true;
  std::optional<EgressLink> egress;  // empty: no network at all
};

// Ends all processes of the sandbox (cgroup.kill, then waits), removes its cgroup and socket; the
// writable layer stays. Done also where nothing runs.
struct KillSandbox {
  std::string session;
};

// KillSandbox, and the writable layer goes too (out of the way at once, deleted in the background).
struct RemoveSandbox {
  std::string session;
};

// What exists on the host, with or without a record: for reconciliation after a restart. Answer:
// Inventory.
struct ListSandboxes {};

// A pidfd of a running sandbox's agent, found again after a restart by pid and start time. Answer:
// Created or Failed. With a port, new sockets of the proxy follow, in the namespace that was kept:
// the earlier ones went with their front.
struct AdoptSandbox {
  std::string session;
  std::uint16_t egress_port = 0;  // 0: a sandbox without egress
  bool transparent = false;
};

// Unpacks one layer into a new layer directory. `fds`: the read end of a pipe with the layer's
// bytes (compressed or not). Answer: Unpacked, when the stream ended. Nothing named `layer` exists
// before that, and nothing stays if it fails.
struct UnpackLayer {
  std::string layer;
  std::string expected_diff_id;  // "sha256:…"; empty: whatever comes out
  std::uint64_t max_unpacked_bytes = 0;
  std::uint64_t max_entries = 0;
  // Layers below it, bottom first: its hard links may name their files, which are copied into it,
  // and directories without an entry of their own are what they are there.
  std::vector<std::string> parents = {};
  bool above_others = false;  // there are layers below, given or not
};

struct RemoveLayers {
  std::vector<std::string> layers;
};

// Answer: Layers.
struct ListLayers {};

// Runs docker-credential-<helper> get as a confined child. Answer: Credential.
struct RunCredentialHelper {
  std::string helper;  // [a-z0-9_-]+
  std::string server;
};

// What the host offers. Answer: HostReport.
struct ProbeHost {};

// Sockets of the network namespace that the broker was started with
// (BrokerOptions::egress_network), unconnected: for connections to origins, and for the resolver.
// Answer: UpstreamSockets. Failed where there is no such namespace (any more): never a socket of
// another one.
struct OpenUpstreamSockets {
  enum class Family : std::uint8_t { inet, inet6 };
  enum class Type : std::uint8_t { stream, datagram };
  Family family = Family::inet;
  Type type = Type::stream;
};

using Request = std::variant<CreateSandbox, KillSandbox, RemoveSandbox, ListSandboxes, AdoptSandbox,
                             UnpackLayer, RemoveLayers, ListLayers, RunCredentialHelper, ProbeHost,
                             OpenUpstreamSockets>;

// ---- answers
// ---------------------------------------------------------------------------------------------------------

enum class Failure : std::uint8_t {
  internal,     // ours, or the kernel's: 500
  invalid,      // the request itself: 400
  unsupported,  // a limit was asked for that this host cannot set: 503
  no_space,     // ENOSPC, EDQUOT: 503
  not_found,
  corrupt_layer,  // the layer's bytes are wrong
  range_taken,    // another session or daemon holds the range: the front takes another uid_base
};

struct Failed {
  Failure kind = Failure::internal;
  std::string message;
};

struct Done {};

struct Created {  // descriptors: a pidfd of the agent; with egress, the proxy's sockets
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;  // field 22 of /proc/pid/stat
};

struct SandboxEntry {
  std::string session;
  bool running = false;
  bool has_writable_layer = false;
};

struct Inventory {
  std::vector<SandboxEntry> sandboxes;
};

struct Unpacked {
  std::string diff_id;  // of what came out
  std::uint64_t unpacked_bytes = 0;
  std::uint64_t entries = 0;
  bool hides_below = false;    // an opaque whiteout at its root
  bool needs_parents = false;  // what lies below it matters and was not given: no layer was made
};

struct Layers {
  std::vector<std::string> layers;
};

struct Credential {
  std::string output;  // what the helper printed: untrusted, at most 16 KiB
};

struct HostReport {
  // name, then "ok" or what is wrong and how to mend it; in pairs
  std::vector<std::string> checks;
};

// Descriptors: a NETLINK_ROUTE socket, by which the front can ask which addresses are the
// namespace's own, and upstream_batch sockets of the kind that was asked for.
struct UpstreamSockets {
  os::NetworkIdentity network;
};
inline constexpr std::size_t upstream_batch = os::max_fds_per_message - 1;

using Answer = std::variant<Failed, Done, Created, Inventory, Unpacked, Layers, Credential,
                            HostReport, UpstreamSockets>;

// A message on the socket: the request's number, which its answer repeats, and the body.
struct RequestMessage {
  std::uint32_t number = 0;
  Request body;
};
struct AnswerMessage {
  std::uint32_t number = 0;
  Answer body;
};

std::string encode(const RequestMessage& message);
std::string encode(const AnswerMessage& message);
// Both throw wire::DecodeError for anything that is not exactly one message with fields in their
// ranges.
RequestMessage decode_request(std::string_view bytes);
AnswerMessage decode_answer(std::string_view bytes);

}  // namespace daiv::runtime
