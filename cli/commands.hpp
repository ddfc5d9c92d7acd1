#pragma once

#include <string>
#include <vector>

#include "cli/settings.hpp"

namespace daiv::cli {

enum class Form { text, json };

// The commands of `daiv-sandbox` that ask the daemon. Each prints to standard output and returns
// the exit code (control_protocol.hpp); failures are thrown as ControlFailure or os::Error.
int pull(const Settings& settings, const std::string& reference, Form form);
int load(const Settings& settings, const std::string& source,
         Form form);  // a file, a directory, or "-"
int list_images(const Settings& settings, Form form);
int list_sessions(const Settings& settings, Form form);
struct ExecArguments {
  std::string session;
  std::vector<std::string> words;  // one: a shell command; several: a program and its arguments
  unsigned timeout_seconds = 0;
};
int exec(const Settings& settings, const ExecArguments& arguments);
enum class Removal { remove, stop };
int remove_sessions(const Settings& settings, const std::vector<std::string>& ids, Removal removal);
enum class Follow { yes, no };
int show_egress_log(const Settings& settings, const std::string& session, Follow follow, Form form);
enum class PruneWhat { layers, unused_images };
int prune(const Settings& settings, PruneWhat what, Form form);
int doctor(const LoadedSettings& loaded, Form form);

// `words` as one shell command: a single word as it is, several quoted so that each stays one.
std::string plan_shell_command(const std::vector<std::string>& words);

}  // namespace daiv::cli
