#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/namespace.hpp"
#include "runtime/broker_protocol.hpp"

// What a sandbox will consist of, decided before anything is done. Everything here is pure.
namespace daiv::runtime {

inline constexpr std::uint32_t range_size = 65'536;
inline constexpr std::size_t max_mount_options_bytes = 4095;  // one page with its NUL (mount(2))

// The host ids that this broker may give away: whole ranges, the first of them the storage range.
struct UidRanges {
  std::uint32_t start = 0x70000000;
  std::uint32_t count = 4096;

  [[nodiscard]] std::uint32_t storage_base() const noexcept { return start; }
  // Whether `base` begins one of the ranges that sessions get.
  [[nodiscard]] bool is_session_range(std::uint32_t base) const noexcept;
  // Whether it begins one of them, or one that would follow if `count` were larger.
  [[nodiscard]] bool is_past_storage(std::uint32_t base) const noexcept;
};

// Every fault of the request, one sentence each; empty where there is none. `earlier`: the range
// that the session's writable layer has, which it keeps where fewer ranges are given now.
std::vector<std::string> check_request(const CreateSandbox& request, const UidRanges& ranges,
                                       std::optional<std::uint32_t> earlier = {});

// The maps of the session's user namespace: 0 to 65,535, one to one onto the session's range. A
// RUN_UID or RUN_GID above takes the place of id 65,535, which no distribution gives to anyone
// (user_namespaces(7)).
struct IdMaps {
  std::vector<os::IdExtent> uids;
  std::vector<os::IdExtent> gids;
};
IdMaps plan_id_maps(const CreateSandbox& request);

// The map of the idmapped mount of all layers: an id of the storage range appears as the session's.
std::vector<os::IdExtent> plan_layer_map(const UidRanges& ranges, std::uint32_t uid_base);

// Overlayfs, mounted from the layers' directory while it is attached at `lower` of the session's
// directory: the names are relative and say nothing of the host, and 500 of them fit into one page.
std::string plan_overlay_options(std::span<const std::string> layers);

enum class MaskKind : std::uint8_t { hidden, read_only };

// A path below a freshly mounted /proc or /sys that is hidden or made read-only, as container
// runtimes do by default (OCI runtime spec, config-linux, Masked Paths and Readonly Paths). A path
// that the kernel doesn't have is passed over.
struct Mask {
  std::string_view path;  // relative to its filesystem's root
  MaskKind kind;
};
std::span<const Mask> proc_masks();
std::span<const Mask> sys_masks();

// Device nodes of /dev, bound from the host's; (major, minor) is checked on what was bound.
struct DeviceNode {
  std::string_view name;
  unsigned major;
  unsigned minor;
};
std::span<const DeviceNode> device_nodes();

struct Link {
  std::string_view name;
  std::string_view target;
};
std::span<const Link> device_links();

// Files of /etc that the sandbox gets from us.
struct EtcFile {
  std::string_view name;
  std::string content;
};
std::vector<EtcFile> plan_etc_files(const std::string& hostname,
                                    const std::optional<EgressLink>& egress);

}  // namespace daiv::runtime
