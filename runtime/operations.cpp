#include "runtime/operations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <utility>

#include "netns/link.hpp"
#include "netns/proxy_sockets.hpp"
#include "os/crash_point.hpp"
#include "os/disk_space.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "runtime/credential_helper.hpp"
#include "runtime/disk_limits.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/names.hpp"
#include "runtime/sandbox_plan.hpp"
#include "runtime/trash.hpp"
#include "runtime/upstream.hpp"

namespace daiv::runtime {
namespace {

constexpr std::chrono::seconds end_limit{10};

Failed failed(const os::Error& error) {
  const int number = error.error_number();
  const bool full = number == ENOSPC || number == EDQUOT;
  return {full ? Failure::no_space : Failure::internal, error.what()};
}

bool is_planned_link(const EgressLink& egress, std::uint32_t uid_base,
                     const BrokerOptions& options) {
  const std::uint32_t index = (uid_base - options.ranges.start) / range_size;
  const auto planned = netns::plan_link(options.egress_subnet, index);
  return planned && planned->proxy == egress.proxy && planned->sandbox == egress.sandbox;
}

Outcome outcome(Answer answer) { return {std::move(answer), {}}; }

// `sockets`: the proxy's, for a sandbox with egress.
Outcome created(RunningAgent agent, std::vector<os::UniqueFd> sockets = {}) {
  Outcome result;
  result.answer = Created{static_cast<std::uint32_t>(agent.pid), agent.start_time};
  result.fds.push_back(std::move(agent.pidfd));
  std::ranges::move(sockets, std::back_inserter(result.fds));
  return result;
}

// As far as the kernel goes along.
netns::Transparency transparency(bool wanted) {
  return wanted && netns::supports_transparency() ? netns::Transparency::on
                                                  : netns::Transparency::off;
}

}  // namespace

Operations::Operations(const BrokerOptions& options, Backend& backend)
    : options_(options), backend_(backend), sessions_(options), layers_(options) {}

Outcome Operations::perform(const Request& request, std::vector<os::UniqueFd> fds) {
  try {
    return std::visit([&](const auto& body) { return act(body, std::move(fds)); }, request);
  } catch (const os::Error& error) {
    return outcome(failed(error));
  } catch (const std::exception& error) {
    return outcome(Failed{Failure::internal, error.what()});
  }
}

std::optional<Failed> Operations::refuse(const CreateSandbox& request,
                                         const std::vector<os::UniqueFd>& fds) const {
  std::optional<std::uint32_t> earlier;
  if (is_session_id(request.session)) earlier = sessions_.find_uid_base(request.session);
  std::vector<std::string> faults = check_request(request, options_.ranges, earlier);
  if (request.egress && !is_planned_link(*request.egress, request.uid_base, options_))
    faults.emplace_back("the addresses of the link are not those of the session's uid range");
  if (!faults.empty()) return Failed{Failure::invalid, fmt::format("{}", fmt::join(faults, "; "))};
  if (fds.size() != 1 || !os::is_sealed(fds.front()))
    return Failed{Failure::invalid, "the agent's configuration is not one sealed memfd"};
  if (const std::string layer = layers_.find_missing(request.layers); !layer.empty())
    return Failed{Failure::not_found, fmt::format("layer {} does not exist", layer)};
  if (backend_.is_running(request.session))
    return Failed{Failure::invalid, "the sandbox runs already"};
  if (!sessions_.has_writable_layer(request.session)) return find_full_disk();
  return std::nullopt;
}

std::optional<Failed> Operations::find_full_disk() const {
  std::string shortage = os::find_disk_shortage(options_.state_dir, options_.min_free_disk_bytes);
  if (shortage.empty()) return std::nullopt;
  return Failed{Failure::no_space, std::move(shortage)};
}

Outcome Operations::act(const CreateSandbox& request, std::vector<os::UniqueFd> fds) {
  if (auto refusal = refuse(request, fds)) return outcome(std::move(*refusal));
  try {
    Outcome result = create(request, std::move(fds.front()));
    if (std::holds_alternative<Failed>(result.answer)) clean_up(request.session);
    return result;
  } catch (const std::exception&) {
    clean_up(request.session);
    throw;
  }
}

Outcome Operations::create(const CreateSandbox& request, os::UniqueFd agent_config) {
  backend_.kill(request.session);  // an empty cgroup may be left of a sandbox that ended by itself
  auto directory = sessions_.open(request.session, request.uid_base);
  if (!directory) return outcome(std::move(directory.error()));
  os::crash_point("broker.create.directory");
  SandboxSpec spec;
  spec.request = request;
  spec.agent_config = std::move(agent_config);
  spec.listener = sessions_.listen(request.session);
  spec.session = std::move(*directory);
  spec.layers = os::duplicate(layers_.directory());
  os::crash_point("broker.create.listens");
  std::vector<os::UniqueFd> sockets;
  if (request.egress) {
    const netns::Transparency mode = transparency(request.egress->transparent);
    spec.request.egress->transparent = mode == netns::Transparency::on;
    spec.proxy_namespace = netns::make_proxy_namespace();
    sockets = netns::open_proxy_sockets(spec.proxy_namespace, request.egress->proxy,
                                        request.egress->port, mode);
    sessions_.hold_network(request.session, spec.proxy_namespace);
    os::crash_point("broker.create.network");
  }
  auto agent = backend_.create(std::move(spec));
  if (!agent) return outcome(std::move(agent.error()));
  os::crash_point("broker.create.runs");
  sessions_.write_record(request.session, {agent->pid, agent->start_time, read_boot_id()});
  os::crash_point("broker.create.recorded");
  return created(std::move(*agent), std::move(sockets));
}

std::optional<RunningAgent> Operations::find_agent(const std::string& session) const {
  const auto record = sessions_.find_record(session);
  if (!record || record->boot_id != read_boot_id()) return std::nullopt;
  auto pidfd = os::find_process(record->pid);
  // Asked after the pidfd is open: what it names can't change any more.
  if (!pidfd || os::find_start_time(record->pid) != record->start_time) return std::nullopt;
  return RunningAgent{record->pid, record->start_time, std::move(*pidfd)};
}

std::optional<RunningAgent> Operations::find_running(const std::string& session) const {
  auto agent = find_agent(session);
  if (!agent || !backend_.is_running(session)) return std::nullopt;
  return agent;
}

// A cgroup is empty before its last process has ended altogether: PID 1 leaves it, and only then
// waits until all others of its namespace are reaped (kernel/exit.c, do_exit). The broker reaps it.
void Operations::end(const std::string& session) {
  const auto agent = find_agent(session);
  backend_.kill(session);
  os::crash_point("broker.end.killed");
  if (agent && os::wait_for(agent->pidfd, POLLIN, end_limit) == os::Readiness::timed_out)
    throw os::Error(ETIMEDOUT, "wait", "end of the agent");
  sessions_.remove_socket(session);
  os::crash_point("broker.end.socket_removed");
  sessions_.release_network(session);
}

void Operations::clean_up(const std::string& session) {
  if (find_running(session)) return;
  end(session);
  sessions_.discard_unfinished(session);
}

// Each owns what came with its request, and closes it.
// NOLINTBEGIN(performance-unnecessary-value-param): descriptors are taken by value
Outcome Operations::act(const KillSandbox& request, std::vector<os::UniqueFd>) {
  end(request.session);
  return outcome(Done{});
}

Outcome Operations::act(const RemoveSandbox& request, std::vector<os::UniqueFd>) {
  end(request.session);
  os::crash_point("broker.remove.ended");
  sessions_.discard(request.session);
  return outcome(Done{});
}

Outcome Operations::act(const ListSandboxes&, std::vector<os::UniqueFd>) {
  std::map<std::string, SandboxEntry> entries;
  for (const std::string& session : sessions_.list()) entries[session].has_writable_layer = true;
  for (const std::string& session : sessions_.list_networks()) entries[session];
  for (const std::string& session : list_cgroups())
    entries[session].running = backend_.is_running(session);
  Inventory inventory;
  for (auto& [session, entry] : entries) {
    if (!is_session_id(session)) continue;
    entry.session = session;
    inventory.sandboxes.push_back(std::move(entry));
  }
  return outcome(std::move(inventory));
}

Outcome Operations::act(const AdoptSandbox& request, std::vector<os::UniqueFd>) {
  auto agent = find_running(request.session);
  if (!agent) return outcome(Failed{Failure::not_found, "no agent of this session runs"});
  if (request.egress_port == 0) return created(std::move(*agent));
  const os::UniqueFd network = sessions_.open_network(request.session);
  return created(std::move(*agent),
                 netns::open_proxy_sockets(network, netns::find_proxy_address(network),
                                           request.egress_port, transparency(request.transparent)));
}

Outcome Operations::act(const UnpackLayer& request, std::vector<os::UniqueFd> fds) {
  if (fds.size() != 1)
    return outcome(Failed{Failure::invalid, "a layer comes through one descriptor"});
  if (auto full = find_full_disk()) return outcome(std::move(*full));
  return outcome(layers_.unpack(request, fds.front()));
}

Outcome Operations::act(const RemoveLayers& request, std::vector<os::UniqueFd>) {
  layers_.remove(request.layers);
  return outcome(Done{});
}

Outcome Operations::act(const ListLayers&, std::vector<os::UniqueFd>) {
  return outcome(Layers{layers_.list()});
}

Outcome Operations::act(const RunCredentialHelper& request, std::vector<os::UniqueFd>) {
  return outcome(run_credential_helper(request));
}

Outcome Operations::act(const ProbeHost&, std::vector<os::UniqueFd>) {
  return outcome(probe_host(options_));
}

Outcome Operations::act(const OpenUpstreamSockets& request, std::vector<os::UniqueFd>) {
  const int family = request.family == OpenUpstreamSockets::Family::inet ? AF_INET : AF_INET6;
  const int type = request.type == OpenUpstreamSockets::Type::stream ? SOCK_STREAM : SOCK_DGRAM;
  netns::UpstreamSockets sockets = open_upstream(options_, family, type, upstream_batch);
  return {UpstreamSockets{sockets.network}, std::move(sockets.opened)};
}
// NOLINTEND(performance-unnecessary-value-param)

void Operations::delete_trash() { empty_trash(layers_.trash()); }

void Operations::flush_layers() { layers_.flush(); }

// Those of other daemons below the same root left out. Claims are read last: a session has its
// claim before its cgroup, and longer.
std::vector<std::string> Operations::list_cgroups() const {
  std::vector<std::string> found = backend_.list();
  const std::vector<std::string> foreign = sessions_.list_foreign();
  std::erase_if(found, [&](const std::string& session) {
    return std::ranges::find(foreign, session) != foreign.end();
  });
  return found;
}

void Operations::recover() {
  layers_.recover();
  sessions_.renew_claims();
  for (const std::string& session : sessions_.list())
    if (!find_running(session)) clean_up(session);
  // A cgroup without a directory of its session has no owner.
  const std::vector<std::string> found = list_cgroups();
  const std::vector<std::string> known = sessions_.list();
  for (const std::string& session : found)
    if (is_session_id(session) && std::ranges::find(known, session) == known.end()) end(session);
  for (const std::string& session : sessions_.list_networks())
    if (std::ranges::find(known, session) == known.end()) sessions_.release_network(session);
}

}  // namespace daiv::runtime
