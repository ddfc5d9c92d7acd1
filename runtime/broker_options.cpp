#include "runtime/broker_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "os/network_namespace.hpp"

namespace daiv::runtime {
namespace {

using Fault = std::unexpected<std::string>;

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool read_subnet(std::string_view text, netns::Subnet& subnet) {
  const auto parsed = netns::parse_subnet(text);
  if (parsed) subnet = *parsed;
  return parsed.has_value();
}

bool read_path(std::string_view text, std::string& path) {
  if (!text.starts_with('/')) return false;
  path = text;
  return true;
}

bool read_network(std::string_view text, std::string& name) {
  if (!text.empty() && !os::is_network_name(text)) return false;
  name = text;
  return true;
}

enum class Taken : std::uint8_t { yes, bad_value, unknown };

Taken taken(bool good) { return good ? Taken::yes : Taken::bad_value; }

bool read_descriptor(std::string_view text, int& fd) {
  std::uint32_t number = 0;
  const bool good = read_number(text, number) && number <= 1024;
  fd = static_cast<int>(number);
  return good;
}

Taken take(BrokerOptions& options, std::string_view name, std::string_view value) {
  if (name == "socket-fd") return taken(read_descriptor(value, options.socket_fd));
  if (name == "listener-fd") return taken(read_descriptor(value, options.listener_fd));
  if (name == "state-dir") return taken(read_path(value, options.state_dir));
  if (name == "runtime-dir") return taken(read_path(value, options.runtime_dir));
  if (name == "claims-dir") return taken(read_path(value, options.claims_dir));
  if (name == "uid-start") return taken(read_number(value, options.ranges.start));
  if (name == "uid-count") return taken(read_number(value, options.ranges.count));
  if (name == "front-uid") return taken(read_number(value, options.front_uid));
  if (name == "front-gid") return taken(read_number(value, options.front_gid));
  if (name == "egress-subnet") return taken(read_subnet(value, options.egress_subnet));
  if (name == "egress-netns") return taken(read_network(value, options.egress_network));
  if (name == "session-disk-bytes") return taken(read_number(value, options.session_disk_bytes));
  if (name == "min-free-disk-bytes") return taken(read_number(value, options.min_free_disk_bytes));
  if (name == "agent") return taken(read_path(value, options.agent));
  if (name == "unpack") return taken(read_path(value, options.unpack));
  if (name == "cgroup-root") return taken(value.empty() || read_path(value, options.cgroup_root));
  return Taken::unknown;
}

std::string check_ranges(const UidRanges& ranges) {
  constexpr std::uint64_t ids = std::numeric_limits<std::uint32_t>::max();
  if (ranges.count < 2) return "--uid-count: at least 2, one for the layers and one for a session";
  if (ranges.start < range_size)
    return "--uid-start: at least 65536, the host's own uids lie below";
  if (ranges.start + std::uint64_t{ranges.count} * range_size > ids)
    return "--uid-count: the ranges pass the last uid";
  return {};
}

}  // namespace

std::expected<BrokerOptions, std::string> parse_broker_options(
    std::span<const char* const> arguments) {
  BrokerOptions options;
  for (const std::string_view argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string_view::npos)
      return Fault(fmt::format("{}: arguments are --name=value", argument));
    switch (take(options, argument.substr(2, equals - 2), argument.substr(equals + 1))) {
      case Taken::yes:
        break;
      case Taken::bad_value:
        return Fault(
            fmt::format("{}: not an absolute path, a name or a number in range", argument));
      case Taken::unknown:
        return Fault(fmt::format("{}: unknown argument", argument));
    }
  }
  if (options.agent.empty()) return Fault("--agent is missing");
  if (std::string fault = check_ranges(options.ranges); !fault.empty())
    return Fault(std::move(fault));
  return options;
}

}  // namespace daiv::runtime
