#include "agent/process_list.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "os/error.hpp"
#include "os/io.hpp"
#include "wire/ascii.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_stat_bytes = 4096;
constexpr std::size_t max_ancestors = 65536;

template <typename Number>
Number number_in(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The fields after the command's name, which may hold anything: it ends at the last ')' (proc(5)).
std::optional<Process> parse_stat(pid_t pid, std::string_view text) {
  const auto close = text.rfind(')');
  if (close == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> fields;
  for (std::size_t at = close + 1; at < text.size() && fields.size() < 20;) {
    const auto begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, at - begin));
  }
  if (fields.size() < 20) return std::nullopt;
  return Process{pid, number_in<pid_t>(fields[1]), number_in<std::uint64_t>(fields[19]),
                 fields[0] == "Z" || fields[0] == "X", fields[0] == "R" || fields[0] == "D"};
}

}  // namespace

std::optional<Process> read_process(pid_t pid) {
  try {
    return parse_stat(pid, os::read_file("/proc/" + std::to_string(pid) + "/stat", max_stat_bytes));
  } catch (const os::Error&) {  // it ended meanwhile
    return std::nullopt;
  }
}

std::vector<Process> list_processes() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) os::throw_errno("opendir", "/proc");
  std::vector<Process> processes;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (!wire::is_digit(entry->d_name[0])) continue;
    const auto pid = number_in<pid_t>(entry->d_name);
    if (pid == ::getpid()) continue;
    if (const auto process = read_process(pid)) processes.push_back(*process);
  }
  return processes;
}

Snapshot take_snapshot(const std::vector<Process>& processes) {
  Snapshot snapshot;
  for (const auto& process : processes) snapshot.emplace(process.pid, process.start);
  return snapshot;
}

std::vector<pid_t> find_started_since(const Snapshot& before, const std::vector<Process>& now,
                                      pid_t self) {
  std::unordered_map<pid_t, const Process*> by_pid;
  for (const auto& process : now) by_pid.emplace(process.pid, &process);
  const auto is_old = [&](const Process* process) {
    for (std::size_t step = 0; process != nullptr && step < max_ancestors; ++step) {
      if (before.contains({process->pid, process->start})) return true;
      if (process->parent == self) return false;
      const auto parent = by_pid.find(process->parent);
      process = parent == by_pid.end() ? nullptr : parent->second;
    }
    return false;
  };
  std::vector<pid_t> found;
  for (const auto& process : now)
    if (!process.zombie && !is_old(&process)) found.push_back(process.pid);
  return found;
}

}  // namespace daiv::agent
