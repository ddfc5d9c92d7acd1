#include "runtime/sandbox_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "netns/link_plan.hpp"
#include "runtime/names.hpp"

namespace daiv::runtime {
namespace {

constexpr std::uint32_t no_id = std::numeric_limits<std::uint32_t>::max();  // (uid_t)-1, chown(2)
constexpr std::uint32_t last_id = range_size - 1;
constexpr std::uint64_t min_memory_bytes = 6U
                                           << 20;  // less does not even hold an agent and a shell
constexpr std::uint64_t min_cpu_millis = 10;       // 1 ms in 100 ms: the kernel's own minimum

std::vector<os::IdExtent> plan_map(std::uint32_t base, std::uint32_t run_id) {
  if (run_id <= last_id) return {{0, base, range_size}};
  return {{0, base, last_id}, {run_id, base + last_id, 1}};
}

void check_ids(const CreateSandbox& request, std::vector<std::string>& faults) {
  if (request.run_uid == no_id) faults.push_back("run uid 4294967295 is not an id");
  if (request.run_gid == no_id) faults.push_back("run gid 4294967295 is not an id");
}

void check_range(const CreateSandbox& request, const UidRanges& ranges,
                 std::optional<std::uint32_t> earlier, std::vector<std::string>& faults) {
  const bool kept = earlier == request.uid_base && ranges.is_past_storage(request.uid_base);
  if (kept || ranges.is_session_range(request.uid_base)) return;
  faults.push_back(fmt::format("uid base {} does not begin one of the session ranges from {} on",
                               request.uid_base, ranges.start));
}

void check_layers(const CreateSandbox& request, std::vector<std::string>& faults) {
  const auto& layers = request.layers;
  if (layers.empty()) faults.push_back("the image has no layer");
  if (layers.size() > max_layers) {
    faults.push_back(fmt::format("the image has {} layers, overlayfs takes at most {}",
                                 layers.size(), max_layers));
  }
  if (!std::ranges::all_of(layers, [](const std::string& name) { return is_layer_name(name); }))
    faults.push_back("a layer's name is not six of [a-z0-9]");
  // The same directory twice is ELOOP for overlayfs, said in words that help nobody.
  if (std::set<std::string>(layers.begin(), layers.end()).size() != layers.size())
    faults.push_back("a layer appears twice");
}

void check_limits(const Limits& limits, std::vector<std::string>& faults) {
  if (limits.memory_bytes != 0 && limits.memory_bytes < min_memory_bytes)
    faults.push_back(
        fmt::format("a memory limit below {} bytes can't hold a command", min_memory_bytes));
  if (limits.cpu_millis != 0 && limits.cpu_millis < min_cpu_millis)
    faults.push_back("a processor limit below a hundredth of one can't be set");
}

constexpr std::array proc_mask_list{
    Mask{"acpi", MaskKind::hidden},          Mask{"asound", MaskKind::hidden},
    Mask{"interrupts", MaskKind::hidden},    Mask{"kcore", MaskKind::hidden},
    Mask{"keys", MaskKind::hidden},          Mask{"key-users", MaskKind::hidden},
    Mask{"kmsg", MaskKind::hidden},          Mask{"kpagecgroup", MaskKind::hidden},
    Mask{"kpagecount", MaskKind::hidden},    Mask{"kpageflags", MaskKind::hidden},
    Mask{"latency_stats", MaskKind::hidden}, Mask{"sched_debug", MaskKind::hidden},
    Mask{"scsi", MaskKind::hidden},          Mask{"timer_list", MaskKind::hidden},
    Mask{"timer_stats", MaskKind::hidden},   Mask{"bus", MaskKind::read_only},
    Mask{"fs", MaskKind::read_only},         Mask{"irq", MaskKind::read_only},
    Mask{"sys", MaskKind::read_only},        Mask{"sysrq-trigger", MaskKind::read_only},
};

constexpr std::array sys_mask_list{
    Mask{"firmware", MaskKind::hidden},
    Mask{"devices/virtual/powercap", MaskKind::hidden},
};

constexpr std::array device_node_list{
    DeviceNode{"null", 1, 3},   DeviceNode{"zero", 1, 5},    DeviceNode{"full", 1, 7},
    DeviceNode{"random", 1, 8}, DeviceNode{"urandom", 1, 9}, DeviceNode{"tty", 5, 0},
};

constexpr std::array device_link_list{
    Link{"fd", "/proc/self/fd"},       Link{"stdin", "/proc/self/fd/0"},
    Link{"stdout", "/proc/self/fd/1"}, Link{"stderr", "/proc/self/fd/2"},
    Link{"ptmx", "pts/ptmx"},
};

// The proxy's end answers look-ups in transparent mode alone.
std::string plan_resolv_conf(const std::optional<EgressLink>& egress) {
  if (!egress || !egress->transparent) return "# This sandbox has no name server.\n";
  return fmt::format("nameserver {}\noptions timeout:2\n", netns::format_address(egress->proxy));
}

}  // namespace

bool UidRanges::is_session_range(std::uint32_t base) const noexcept {
  return is_past_storage(base) && (base - start) / range_size < count;
}

bool UidRanges::is_past_storage(std::uint32_t base) const noexcept {
  return base > start && (base - start) % range_size == 0;
}

std::vector<std::string> check_request(const CreateSandbox& request, const UidRanges& ranges,
                                       std::optional<std::uint32_t> earlier) {
  std::vector<std::string> faults;
  if (!is_session_id(request.session)) faults.push_back("the session's id is malformed");
  if (!is_hostname(request.hostname)) faults.push_back("the host name is malformed");
  check_range(request, ranges, earlier, faults);
  check_ids(request, faults);
  check_layers(request, faults);
  check_limits(request.limits, faults);
  return faults;
}

IdMaps plan_id_maps(const CreateSandbox& request) {
  return {plan_map(request.uid_base, request.run_uid), plan_map(request.uid_base, request.run_gid)};
}

std::vector<os::IdExtent> plan_layer_map(const UidRanges& ranges, std::uint32_t uid_base) {
  return {{ranges.storage_base(), uid_base, range_size}};
}

std::string plan_overlay_options(std::span<const std::string> layers) {
  std::string options = "userxattr,lowerdir=";
  // Overlayfs wants the uppermost first.
  for (std::size_t index = layers.size(); index > 0; --index) {
    options += layers[index - 1];
    if (index > 1) options += ':';
  }
  return options + ",upperdir=../upper,workdir=../work";
}

std::span<const Mask> proc_masks() { return proc_mask_list; }
std::span<const Mask> sys_masks() { return sys_mask_list; }
std::span<const DeviceNode> device_nodes() { return device_node_list; }
std::span<const Link> device_links() { return device_link_list; }

std::vector<EtcFile> plan_etc_files(const std::string& hostname,
                                    const std::optional<EgressLink>& egress) {
  return {
      {"hostname", hostname + "\n"},
      {"hosts", fmt::format("127.0.0.1\tlocalhost\n"
                            "::1\tlocalhost ip6-localhost ip6-loopback\n"
                            "fe00::\tip6-localnet\n"
                            "ff00::\tip6-mcastprefix\n"
                            "ff02::1\tip6-allnodes\n"
                            "ff02::2\tip6-allrouters\n"
                            "127.0.1.1\t{}\n",
                            hostname)},
      {"resolv.conf", plan_resolv_conf(egress)},
  };
}

}  // namespace daiv::runtime
