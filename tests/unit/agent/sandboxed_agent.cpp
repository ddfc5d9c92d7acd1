#include "sandboxed_agent.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"
#include "wire/sandbox_abi.hpp"

namespace daiv::agent::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const fs::path cgroup_root = "/sys/fs/cgroup/unified";

os::UniqueFd memory_file(std::string_view content) {
  os::UniqueFd file(os::check(::memfd_create("test", MFD_CLOEXEC), "memfd_create", "test"));
  os::write_full(file, content);
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string allow_everything() {
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return {reinterpret_cast<const char*>(&allow), sizeof allow};
}

void bind(const std::string& from, const std::string& to) {
  os::check(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr), "mount", to);
}

void fill_image(const std::string& root, Image image) {
  for (const char* directory : {"bin", "etc", "tmp", "proc", "dev", "workspace"})
    fs::create_directories(root + "/" + directory);
  if (image == Image::host) {
    fs::remove(root + "/bin");
    fs::create_directories(root + "/usr");
    bind("/usr", root + "/usr");
    bind("/etc", root + "/etc");
    for (const char* name : {"bin", "sbin", "lib", "lib64"})
      fs::create_symlink(std::string("usr/") + name, root + "/" + name);
  } else {
    fs::copy_file("/bin/busybox", root + "/bin/busybox");
    for (const char* name :
         {"sh", "sleep", "cat", "echo", "ls", "id", "ps", "grep", "true", "false"}) {
      if (image == Image::no_shell && std::string_view(name) == "sh") continue;
      fs::create_symlink("busybox", root + "/bin/" + name);
    }
  }
}

void make_root(const std::string& root, Image image) {
  os::check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "mount", "/");
  os::check(::mount("tmpfs", root.c_str(), "tmpfs", 0, "mode=0755"), "mount", "root");
  ::umask(0);
  fill_image(root, image);
  for (const char* directory : {"", "/repo", "/skills", "/tmp"}) {
    const std::string path = root + "/workspace" + directory;
    ::mkdir(path.c_str(), 0755);
    os::check(::chown(path.c_str(), 1000, 1000), "chown", path);
    os::check(::chmod(path.c_str(), 0755), "chmod", path);
  }
  os::check(::chmod((root + "/tmp").c_str(), 01777), "chmod", "/tmp");
  for (const char* device : {"null", "zero", "urandom"}) {
    std::ofstream(root + "/dev/" + device).close();
    bind(std::string("/dev/") + device, root + "/dev/" + device);
  }
  fs::create_symlink("/proc/self/fd", root + "/dev/fd");
  fs::create_symlink("/proc/self/fd/1", root + "/dev/stdout");
  os::check(::mount("proc", (root + "/proc").c_str(), "proc", 0, nullptr), "mount", "proc");
  os::check(::chdir(root.c_str()), "chdir", root);
  os::check(static_cast<int>(::syscall(SYS_pivot_root, ".", ".")), "pivot_root", root);
  os::check(::umount2(".", MNT_DETACH), "umount2", "old root");
  os::check(::chdir("/"), "chdir", "/");
}

[[noreturn]] void become_agent(const std::string& root, const SandboxOptions& options,
                               const os::UniqueFd& go, std::array<os::UniqueFd, 5> fds,
                               const os::UniqueFd& program) {
  try {
    std::array<std::byte, 1> byte{};
    os::read_full(go, byte);
    make_root(root, options.image);
    const os::UniqueFd kept(
        os::check(::fcntl(program.get(), F_DUPFD_CLOEXEC, 200), "fcntl", "program"));
    for (auto& fd : fds) fd.reset(os::check(::fcntl(fd.get(), F_DUPFD, 20), "fcntl", "fd"));
    for (int index = 0; index < 5; ++index)
      ::dup2(fds[static_cast<std::size_t>(index)].get(), 3 + index);
    ::syscall(SYS_close_range, 8, 199, 0);
    // As the broker does: what whoever started the test ignores is not the commands'.
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
    for (int index = 0; index < 3; ++index) ::close(index);
    const std::array<char*, 2> argv = {const_cast<char*>("agent"), nullptr};
    const std::array<char*, 1> envp = {nullptr};
    ::fexecve(kept.get(), argv.data(), envp.data());
  } catch (const std::exception& error) {
    [[maybe_unused]] const auto ignored =
        ::write(7, error.what(), std::string_view(error.what()).size());
  }
  ::_exit(1);
}

void write_map(pid_t pid, const char* name, std::string_view text) {
  os::write_full(os::open_file("/proc/" + std::to_string(pid) + "/" + name, O_WRONLY), text);
}

}  // namespace

void FrontConnection::send(RequestType type, std::string_view payload) {
  send_raw(make_frame(static_cast<std::uint8_t>(type), payload));
}

void FrontConnection::send_raw(std::string_view bytes) { os::send_message(socket_, bytes); }

bool FrontConnection::wait(std::chrono::milliseconds limit) const {
  pollfd waited{socket_.get(), POLLIN, 0};
  return os::retry_eintr([&] { return ::poll(&waited, 1, static_cast<int>(limit.count())); }) > 0;
}

Answer FrontConnection::receive() {
  std::string header(frame_header_bytes, '\0');
  if (os::read_full(socket_, std::as_writable_bytes(std::span(header))) != header.size()) return {};
  const auto parsed = parse_frame_header(header, max_answer_bytes);
  Answer answer{static_cast<AnswerType>(parsed.type), std::string(parsed.length, '\0')};
  if (os::read_full(socket_, std::as_writable_bytes(std::span(answer.payload))) != parsed.length)
    throw std::runtime_error("answer is cut");
  return answer;
}

SandboxedAgent::SandboxedAgent(SandboxOptions options) {
  std::array<char, 32> name{"/tmp/agent-test-XXXXXX"};
  directory_ = ::mkdtemp(name.data());
  fs::create_directory(directory_ + "/root");
  const auto listener = os::listen_unix(directory_ + "/agent.sock", os::SocketKind::stream, 128);
  if (options.grouping == Grouping::cgroup) {
    cgroup_path_ = cgroup_root / fs::path(directory_).filename();
    fs::create_directory(cgroup_path_);
  }
  // A plain directory is no cgroup: the agent has to do without.
  const auto cgroup = os::open_file(cgroup_path_.empty() ? directory_ + "/root" : cgroup_path_,
                                    O_PATH | O_DIRECTORY);
  const auto program = os::open_file(std::getenv("AGENT_PROGRAM"), O_RDONLY);
  if (options.config.environment.empty())
    options.config.environment = {"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"};
  const auto config = memory_file(options.config.encode());
  const auto filter = memory_file(allow_everything());
  auto status = os::make_pipe();
  auto go = os::make_pipe();

  clone_args args{};
  args.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
  args.exit_signal = SIGCHLD;
  pid_ =
      static_cast<pid_t>(os::check(::syscall(SYS_clone3, &args, sizeof args), "clone3", "agent"));
  if (pid_ == 0)
    become_agent(directory_ + "/root", options, go.read_end,
                 {os::duplicate(listener), os::duplicate(config), os::duplicate(filter),
                  os::duplicate(cgroup), os::duplicate(status.write_end)},
                 program);
  write_map(pid_, "uid_map", "0 0 65536");
  write_map(pid_, "gid_map", "0 0 65536");
  if (!cgroup_path_.empty())
    os::write_full(os::open_file(cgroup_path_ + "/cgroup.procs", O_WRONLY), std::to_string(pid_));
  status.write_end.reset();
  const auto begin = Clock::now();
  os::write_full(go.write_end, "g");
  const auto text = os::read_all(status.read_end, 4096);
  started_in_ = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  if (text != "r") throw std::runtime_error("agent did not start: " + text);
}

SandboxedAgent::~SandboxedAgent() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  if (!cgroup_path_.empty()) {
    eventually([&] {
      for (const auto& entry : fs::directory_iterator(cgroup_path_, ignored))
        if (entry.is_directory()) ::rmdir(entry.path().c_str());
      return ::rmdir(cgroup_path_.c_str()) == 0;
    });
  }
  fs::remove_all(directory_, ignored);
}

FrontConnection SandboxedAgent::connect() const {
  return FrontConnection(os::connect_unix(directory_ + "/agent.sock", os::SocketKind::stream));
}

ExecResult SandboxedAgent::exec(std::string_view command, std::chrono::milliseconds timeout,
                                std::uint64_t max_output) const {
  auto connection = connect();
  const auto begin = Clock::now();
  connection.send(RequestType::exec,
                  ExecRequest{std::string(command), timeout, max_output}.encode());
  auto result = finish_exec(connection);
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return result;
}

ExecResult SandboxedAgent::finish_exec(FrontConnection& connection) {
  ExecResult result;
  for (;;) {
    const auto answer = connection.receive();
    if (answer.type == AnswerType::output) {
      result.output += answer.payload;
    } else if (answer.type == AnswerType::exec_done) {
      result.done = ExecDone::decode(answer.payload);
      return result;
    } else if (answer.type == AnswerType::failed) {
      throw std::runtime_error("failed: " + Failed::decode(answer.payload).message);
    } else {
      throw std::runtime_error("no answer");
    }
  }
}

void SandboxedAgent::freeze_workers(bool frozen) const {
  const fs::path leaf = fs::path(cgroup_path_) / "work";
  const os::UniqueFd directory = os::open_file(leaf, O_PATH | O_DIRECTORY);
  os::write_value(directory, "cgroup.freeze", frozen ? "1" : "0");
}

Status SandboxedAgent::status() const {
  auto connection = connect();
  connection.send(RequestType::status, {});
  return Status::decode(connection.receive().payload);
}

std::uint32_t SandboxedAgent::processes() const { return status().processes; }

Answer SandboxedAgent::terminate(std::chrono::milliseconds grace) const {
  auto connection = connect();
  connection.send(RequestType::terminate, TerminateRequest{grace}.encode());
  return connection.receive();
}

}  // namespace daiv::agent::test
