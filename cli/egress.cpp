#include "cli/egress.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "cli/egress_authority.hpp"
#include "cli/egress_plan.hpp"
#include "netns/transparent_plan.hpp"
#include "os/error.hpp"

namespace asio = boost::asio;

namespace daiv::cli {
namespace {

constexpr std::chrono::seconds authority_poll{10};
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

proxy::EgressSettings plan(const Settings& settings,
                           std::shared_ptr<const proxy::CertificateAuthority> authority) {
  proxy::EgressSettings plan = plan_egress(settings);
  plan.authority = std::move(authority);
  return plan;
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
  const std::string& network =
      settings.egress_proxy_network.empty() ? settings.network : settings.egress_proxy_network;
  if (network.empty() || ::if_nametoindex(network.c_str()) != 0) return conflicts;
  const bool is_namespace = ::access(("/run/netns/" + network).c_str(), F_OK) == 0;
  conflicts.push_back(fmt::format(
      "DAIV_SANDBOX_{}={}: {}",
      settings.egress_proxy_network.empty() ? "NETWORK" : "EGRESS_PROXY_NETWORK", network,
      is_namespace ? "a named network namespace is not supported yet, only a host interface"
                   : "this host has no interface of that name"));
  return conflicts;
}

Egress::Egress(const Settings& settings, const proxy::PemPair& authority,
               asio::any_io_executor executor, asio::thread_pool& pool)
    : settings_(settings),
      subnet_(*netns::parse_subnet(settings.egress_subnet)),
      public_roots_(read_public_roots()),
      authority_(load_authority(settings, authority)),
      trust_(plan_trust(*authority_, public_roots_)),
      seen_(look_at_pair(settings)),
      timer_(executor),
      proxy_(
          plan(settings, authority_),
          [this](const proxy::Decision& decision) {
            spdlog::info("{}", describe(decision));
            log_.record(decision);
          },
          executor, pool) {
  for (const auto& remark : find_authority_remarks(*authority_)) spdlog::warn("{}", remark);
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

bool Egress::serves(const std::string& session) const { return proxy_.serves(session); }

sessions::EgressSetup Egress::setup() {
  sessions::EgressSetup setup;
  setup.gate = this;
  setup.port = settings_.egress_proxy_port;
  setup.transparent = settings_.egress_transparent != Transparent::off;
  setup.directory = settings_.runtime_dir + "/egress";
  setup.plan_link = [this](std::uint32_t uid_base) {
    const auto addresses = netns::plan_link(subnet_, (uid_base - settings_.uid_start) / range_size);
    if (!addresses) throw std::runtime_error("DAIV_SANDBOX_EGRESS_SUBNET has no address left");
    return runtime::EgressLink{addresses->proxy, addresses->sandbox, settings_.egress_proxy_port,
                               settings_.egress_transparent != Transparent::off};
  };
  return setup;
}

asio::awaitable<void> Egress::watch_authority() {
  for (;;) {
    timer_.expires_after(authority_poll);
    const auto [error] = co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    take_changed_authority();
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
