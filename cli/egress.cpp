#include "cli/egress.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "cli/broker_sockets.hpp"
#include "cli/egress_authority.hpp"
#include "cli/egress_plan.hpp"
#include "cli/upstream_network.hpp"
#include "netns/transparent_plan.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "sessions/session_service.hpp"

namespace asio = boost::asio;

namespace daiv::cli {
namespace {

constexpr std::chrono::seconds host_poll{10};
constexpr std::size_t max_resolver_bytes = 64U << 10;
constexpr std::uint32_t range_size = 65536;

// Changes with every way of replacing a file.
std::string look_at(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "-";
  return fmt::format("{}:{}:{}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

std::string look_at_pair(const Settings& settings) {
  return look_at(settings.egress_ca_cert_file) + " " + look_at(settings.egress_ca_key_file);
}

proxy::EgressSettings plan(const Settings& settings, const UpstreamNetwork& network,
                           std::shared_ptr<const proxy::CertificateAuthority> authority,
                           std::shared_ptr<proxy::OutboundSockets> outbound) {
  proxy::EgressSettings plan = plan_egress(settings, network);
  plan.authority = std::move(authority);
  plan.outbound = std::move(outbound);
  return plan;
}

// Looked up once: what is not there must not turn into any interface of the host.
UpstreamNetwork find_known_network(const Settings& settings) {
  UpstreamNetwork network = find_upstream_network(settings);
  if (network.kind == UpstreamNetwork::Kind::unknown)
    throw std::runtime_error(fmt::format("{}: {}", network.setting, network.fault));
  return network;
}

// Null: sockets to origins are the front's own to make.
std::shared_ptr<proxy::OutboundSockets> borrow_sockets(const UpstreamNetwork& network,
                                                       runtime::BrokerClient& broker) {
  if (network.kind != UpstreamNetwork::Kind::network_namespace) return nullptr;
  return borrow_upstream_sockets(broker, network.name);
}

// A name server on the host's loopback (systemd-resolved is one) does not answer in a namespace.
void warn_of_name_servers(const std::string& own_file) {
  constexpr const char* host_file = "/etc/resolv.conf";
  if (::access(own_file.c_str(), F_OK) == 0) return;
  try {
    if (asks_loopback_alone(os::read_file(host_file, max_resolver_bytes)))
      spdlog::warn(
          "event=egress_name_servers_on_loopback effect=\"names are not found unless the network "
          "namespace has a name server there: write {}\"",
          own_file);
  } catch (const os::Error& error) {
    spdlog::warn("event=egress_name_servers_unknown error=\"{}\"", error.what());
  }
}

bool is_port_of_transparency(const Settings& settings) {
  return settings.egress_proxy_port == netns::dns_port ||
         settings.egress_proxy_port == netns::http_port ||
         settings.egress_proxy_port == netns::https_port;
}

// The order is that of netns/proxy_sockets.hpp.
proxy::TransparentSockets take_transparent(std::vector<os::UniqueFd>& sockets) {
  constexpr std::size_t all = 5;
  if (sockets.size() < all) return {};
  return {std::move(sockets[1]), std::move(sockets[2]), std::move(sockets[3]),
          std::move(sockets[4])};
}

}  // namespace

std::vector<std::string> find_egress_conflicts(const Settings& settings) {
  std::vector<std::string> conflicts;
  const auto subnet = netns::parse_subnet(settings.egress_subnet);
  if (!subnet || !netns::plan_link(*subnet, settings.uid_count - 1))
    conflicts.push_back(fmt::format(
        "DAIV_SANDBOX_EGRESS_SUBNET={}: four addresses are needed for each of the {} ranges of "
        "DAIV_SANDBOX_UID_COUNT",
        settings.egress_subnet, settings.uid_count));
  if (settings.egress_transparent != Transparent::off && is_port_of_transparency(settings))
    conflicts.push_back(
        fmt::format("DAIV_SANDBOX_EGRESS_PROXY_PORT={}: transparent mode has this port; choose "
                    "another or set DAIV_SANDBOX_EGRESS_TRANSPARENT=off",
                    settings.egress_proxy_port));
  const UpstreamNetwork network = find_upstream_network(settings);
  if (network.kind == UpstreamNetwork::Kind::unknown)
    conflicts.push_back(fmt::format("{}: {}", network.setting, network.fault));
  return conflicts;
}

Egress::Egress(const Settings& settings, const proxy::PemPair& authority,
               runtime::BrokerClient& broker, asio::any_io_executor executor,
               asio::thread_pool& pool)
    : settings_(settings),
      subnet_(*netns::parse_subnet(settings.egress_subnet)),
      public_roots_(read_public_roots()),
      authority_(load_authority(settings, authority)),
      trust_(plan_trust(*authority_, public_roots_)),
      seen_(look_at_pair(settings)),
      timer_(executor),
      network_(find_known_network(settings)),
      outbound_(borrow_sockets(network_, broker)),
      proxy_(
          plan(settings, network_, authority_, outbound_),
          [this](const proxy::Decision& decision) { record(decision); }, executor, pool) {
  for (const auto& remark : find_authority_remarks(*authority_)) spdlog::warn("{}", remark);
  if (outbound_) warn_of_name_servers(resolver_file_of(network_.name));
}

Egress::~Egress() = default;

void Egress::open(const std::string& session, std::vector<os::UniqueFd> sockets,
                  const sessions::EgressPolicy& policy) {
  if (sockets.empty()) throw std::runtime_error("the broker gave no listener");
  proxy::TransparentSockets transparent = take_transparent(sockets);
  if (settings_.egress_transparent != Transparent::off && !transparent.http)
    spdlog::warn("session={} event=egress_not_transparent reason=\"the kernel has no route rules\"",
                 session);
  sockets.resize(1);
  proxy_.add(session, std::move(sockets), plan_policy(policy), std::move(transparent));
}

bool Egress::update(const std::string& session, const sessions::EgressPolicy& policy) {
  return proxy_.update(session, plan_policy(policy));
}

void Egress::close(const std::string& session) { proxy_.remove(session); }

void Egress::record(const proxy::Decision& decision) {
  // What is allowed in masses hides nothing that is denied.
  LineBudget& budget = decision.allowed ? allowed_lines_ : denied_lines_;
  const auto verdict = budget.spend(decision.session, std::chrono::steady_clock::now());
  const std::string_view kind = decision.allowed ? "allowed" : "denied";
  if (verdict.is_first_left_out)
    spdlog::warn(
        "session={} event=egress_lines_left_out decision={} reason=\"more than {} a second\"",
        decision.session, kind, LineBudget::lines_per_second);
  if (verdict.left_out > 0)
    spdlog::warn("session={} event=egress_lines_were_left_out decision={} count={}",
                 decision.session, kind, verdict.left_out);
  if (verdict.is_written) spdlog::info("{}", describe(decision));
  log_.record(decision);
}

bool Egress::serves(const std::string& session) const { return proxy_.serves(session); }

sessions::EgressSetup Egress::setup() {
  sessions::EgressSetup setup;
  setup.gate = this;
  setup.port = settings_.egress_proxy_port;
  setup.transparent = settings_.egress_transparent != Transparent::off;
  setup.directory = settings_.runtime_dir + "/egress";
  setup.plan_link = [this](std::uint32_t uid_base) {
    const auto addresses = netns::plan_link(subnet_, (uid_base - settings_.uid_start) / range_size);
    if (!addresses)  // of a session that was made when there were more ranges
      throw sessions::SessionError(
          sessions::SessionFailure::unavailable,
          "DAIV_SANDBOX_EGRESS_SUBNET has no addresses for the session's uid range");
    return runtime::EgressLink{addresses->proxy, addresses->sandbox, settings_.egress_proxy_port,
                               settings_.egress_transparent != Transparent::off};
  };
  return setup;
}

asio::awaitable<void> Egress::watch_host() {
  for (;;) {
    timer_.expires_after(host_poll);
    const auto [error] = co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    take_changed_authority();
    if (outbound_) outbound_->drop_stale();
  }
}

// Small files of the operator's, read on the io thread when they have changed and not otherwise.
void Egress::take_changed_authority() {
  std::string now = look_at_pair(settings_);
  if (now == seen_) return;
  seen_ = std::move(now);
  try {
    auto authority = load_authority(settings_, read_authority(settings_));
    trust_ = plan_trust(*authority, public_roots_);
    authority_ = std::move(authority);
    proxy_.replace_authority(authority_);
    spdlog::info("event=egress_ca_replaced effect=\"sandboxes that start from now on trust it\"");
    for (const auto& remark : find_authority_remarks(*authority_)) spdlog::warn("{}", remark);
  } catch (const os::Error& error) {
    spdlog::warn("event=egress_ca_not_read error=\"{}\" effect=\"{}\"", error.what(),
                 error.error_number() == EACCES
                     ? "the old CA stays: restart the daemon, or let its user read the files"
                     : "the old CA stays");
  } catch (const std::exception& error) {  // half written, or wrong: the old one stays
    spdlog::warn("event=egress_ca_not_taken error=\"{}\" effect=\"the old CA stays\"",
                 error.what());
  }
}

asio::awaitable<void> Egress::stop() {
  timer_.cancel();
  co_await proxy_.stop();
}

std::string Egress::expose() const { return cli::expose(proxy_.counters()); }

}  // namespace daiv::cli
