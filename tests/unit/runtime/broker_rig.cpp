#include "broker_rig.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/memfd.hpp"
#include "os/socket.hpp"
#include "runtime/cgroup.hpp"

namespace daiv::runtime::test {
namespace {

std::string make_base() {
  std::string pattern = "/tmp/daiv-broker-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) os::throw_errno("mkdtemp", pattern);
  ::chmod(pattern.c_str(), 0755);
  return pattern;
}

void run_shell(const std::string& script) {
  const int status = std::system(script.c_str());
  if (status != 0) throw std::runtime_error("script failed: " + script);
}

std::size_t count_mounts_of(const std::string& directory) {
  std::ifstream file("/proc/self/mountinfo");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);)
    if (line.contains(directory)) ++count;
  return count;
}

// Empty where the process has ended.
std::string network_of(const std::filesystem::path& process) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink((process / "ns/net").c_str(), target.data(), target.size() - 1);
  return size < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

std::set<std::string> children_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  return {std::istream_iterator<std::string>(file), {}};
}

bool is_ours(uid_t uid) { return uid >= uid_start && uid - uid_start < uid_count * 65'536U; }

}  // namespace

BrokerRig::BrokerRig(std::vector<std::string> environment, const std::string& state_name,
                     std::vector<std::string> more)
    : base_(make_base()),
      state_(base_ + "/" + state_name),
      run_(base_ + "/run"),
      environment_(std::move(environment)),
      more_(std::move(more)) {
  const auto mount = find_cgroup2_mount(os::read_file("/proc/self/mountinfo", 16U << 20));
  if (!mount) throw std::runtime_error("no cgroup2 mount");
  cgroup_ = *mount + "/daiv-test-" + base_.substr(base_.rfind('-') + 1);
  start();
}

BrokerRig::~BrokerRig() {
  for (const std::string& session : [&] {
         std::vector<std::string> names;
         if (auto* list = ::opendir(cgroup_.c_str())) {
           while (const dirent* entry = ::readdir(list))
             if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
               names.emplace_back(entry->d_name);
           ::closedir(list);
         }
         return names;
       }())
    client_->call(RemoveSandbox{session});
  client_.reset();
  broker_.wait();
  ::rmdir(cgroup_.c_str());
  run_shell("rm -rf " + base_);
}

void BrokerRig::start() {
  auto [front, back] = os::make_socket_pair(os::SocketKind::seqpacket);
  std::vector<std::string> arguments{
      BROKER_PROGRAM,
      "--socket-fd=3",
      "--state-dir=" + state_,
      "--runtime-dir=" + run_,
      "--claims-dir=" + base_ + "/claims",
      fmt::format("--uid-start={}", uid_start),
      fmt::format("--uid-count={}", uid_count),
      "--agent=" PROBE_AGENT,
      "--unpack=" PROBE_UNPACK,
      "--cgroup-root=" + cgroup_,
  };
  arguments.insert(arguments.end(), more_.begin(), more_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& variable : environment_) envp.push_back(variable.data());
  envp.push_back(nullptr);
  broker_ = os::clone_process(0);
  if (!broker_) {
    ::dup2(back.get(), 3);
    ::fcntl(3, F_SETFD, 0);
    ::execve(BROKER_PROGRAM, argv.data(), envp.data());
    ::_exit(127);
  }
  client_ = std::make_unique<BrokerClient>(std::move(front));
}

void BrokerRig::restart() {
  client_.reset();
  broker_.wait();
  start();
}

std::string BrokerRig::add_layer(const std::string& shell_script) {
  const std::string name = fmt::format("{:06}", next_layer_++);
  const std::string path = state_ + "/layers/" + name;
  call(ListLayers{});  // the broker has made its directories by now
  std::filesystem::create_directory(path);
  // Shifted into the storage range, as the unpacker leaves it.
  run_shell(fmt::format("cd {} && {} && find . -exec chown -h {}:{} {{}} +", path, shell_script,
                        uid_start, uid_start));
  return name;
}

CreateSandbox BrokerRig::request(std::vector<std::string> layers) {
  CreateSandbox request;
  request.session = fmt::format("{:032x}", ++next_session_);
  request.uid_base = uid_start + (next_session_ % 63 + 1) * 65'536U;
  request.layers = layers.empty() ? std::vector{add_layer()} : std::move(layers);
  request.run_uid = 1000;
  request.run_gid = 1000;
  request.hostname = "box";
  return request;
}

Reply BrokerRig::try_create(const CreateSandbox& request, const std::string& config) {
  const os::UniqueFd memfd = os::make_sealed_memfd("config", config);
  return call(request, {memfd.get()});
}

os::UniqueFd BrokerRig::create(const CreateSandbox& request, const std::string& config) {
  Reply reply = try_create(request, config);
  if (!std::holds_alternative<Created>(reply.answer)) throw std::runtime_error(failure_text(reply));
  return std::move(reply.fds.at(0));
}

std::string BrokerRig::ask(const std::string& session, const std::string& line) const {
  const os::UniqueFd socket =
      os::connect_unix(run_ + "/sessions/" + session + "/agent.sock", os::SocketKind::stream);
  os::send_message(socket, line);
  return os::read_all(socket, 4U << 20);
}

std::string failure_text(const Reply& reply) {
  const auto* failed = std::get_if<Failed>(&reply.answer);
  return failed == nullptr ? "" : failed->message;
}

Inventory count_traces(const BrokerRig& rig) {
  Inventory inventory;
  std::set<std::string> networks;
  const std::set<std::string> children = children_of(rig.broker_pid());
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    struct stat status{};
    const bool is_sandboxed = ::stat(entry.path().c_str(), &status) == 0 && is_ours(status.st_uid);
    if (is_sandboxed) ++inventory.processes;
    if (!is_sandboxed && !children.contains(entry.path().filename())) continue;
    networks.insert(network_of(entry.path()));
  }
  networks.erase(network_of("/proc/self"));  // the broker's workers are in the host's
  networks.erase("");
  inventory.namespaces = networks.size();
  inventory.mounts = count_mounts_of(rig.base());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(rig.cgroup()))
    if (entry.is_directory()) ++inventory.cgroups;
  return inventory;
}

}  // namespace daiv::runtime::test
