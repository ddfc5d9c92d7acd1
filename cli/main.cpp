#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/broker_command.hpp"
#include "cli/build_config.hpp"
#include "cli/ca_command.hpp"
#include "cli/commands.hpp"
#include "cli/control_protocol.hpp"
#include "cli/serve.hpp"
#include "cli/settings.hpp"
#include "cli/settings_listing.hpp"

namespace daiv::cli {
namespace {

constexpr const char* footer =
    "Settings come from DAIV_SANDBOX_* (see: daiv-sandbox settings).\n"
    "Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 no such session or image, 4 no daemon "
    "answers or a retry may help;\n"
    "exec gives the command's own code, 124 after a timeout, 125 where it could not be run.";

enum class Listing { text, json, markdown };

int show_settings(const LoadedSettings& loaded, Listing listing) {
  switch (listing) {
    case Listing::text:
      fmt::print("{}", list_settings(loaded));
      break;
    case Listing::json:
      fmt::print("{}", list_settings_as_json(loaded));
      break;
    case Listing::markdown:
      fmt::print("{}", document_settings());
      break;
  }
  return loaded.errors.empty() ? exit_ok : exit_failed;
}

int show_version(Form form) {
  if (form == Form::json) {
    fmt::print("{{\"version\": \"{}\"}}\n", version);
  } else {
    fmt::print("daiv-sandbox {}\n", version);
  }
  return exit_ok;
}

// Takes the "--" between a session's id and its command out of `exec ID -- COMMAND`: the parser
// would take it as the end of prefix_command() as well.
void drop_separator(std::vector<std::string>& words) {
  if (words.empty() || words.front() != "exec") return;
  std::size_t id = 1;
  while (id < words.size() && words[id].starts_with('-')) id += words[id] == "--timeout" ? 2 : 1;
  const std::size_t separator = id + 1;
  if (separator < words.size() && words[separator] == "--") {
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(separator));
  }
}

// The arguments, and what is to be done once they are read.
class CommandLine {
public:
  CommandLine() {
    app_.footer(footer);
    app_.require_subcommand(1);
    add_daemon_commands();
    add_image_commands();
    add_session_commands();
    add_egress_commands();
    add_host_commands();
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  int run(int count, char** arguments) {
    try {
      std::vector<std::string> words(arguments + 1, arguments + count);
      drop_separator(words);
      std::ranges::reverse(words);  // what parse() takes
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? exit_ok : exit_usage;
    }
    loaded_ = load_settings(system_setting_sources());
    return chosen_();
  }

private:
  CLI::App* add(const char* name, const char* description, std::function<int()> action) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->callback([this, action = std::move(action)] { chosen_ = action; });
    return command;
  }
  CLI::App* with_json(CLI::App* command) {
    command->add_flag("--json", json_, "print JSON, for scripts");
    return command;
  }
  [[nodiscard]] Form form() const { return json_ ? Form::json : Form::text; }
  [[nodiscard]] const Settings& settings() const { return loaded_.settings; }

  void add_daemon_commands() {
    add("serve", "run the daemon in the foreground (as root)", [this] { return serve(loaded_); });
    add("broker", "run the privileged part alone, for a service manager (as root)",
        [this] { return run_broker(loaded_); });
  }

  void add_image_commands() {
    auto* pull_command = with_json(add("pull", "pull an image from its registry",
                                       [this] { return pull(settings(), image_, form()); }));
    pull_command->add_option("image", image_, "for example debian:12-slim")->required();
    auto* load_command = with_json(add("load", "load images from a docker-archive or an OCI layout",
                                       [this] { return load(settings(), source_, form()); }));
    load_command
        ->add_option("source", source_, "a tar, an OCI layout directory, or - for standard input")
        ->required();
    with_json(add("images", "list images", [this] { return list_images(settings(), form()); }));
    auto* prune_command = with_json(add("prune", "remove layers that no image needs", [this] {
      return prune(settings(), all_ ? PruneWhat::unused_images : PruneWhat::layers, form());
    }));
    prune_command->add_flag("--all", all_, "images that no session uses as well");
  }

  void add_session_commands() {
    with_json(add("ps", "list sessions", [this] { return list_sessions(settings(), form()); }));
    exec_command_ = add("exec", "run a command in a session: exec ID [--] COMMAND...",
                        [this] { return run_exec(); });
    exec_command_->add_option("--timeout", exec_.timeout_seconds,
                              "seconds; the server's default if not given");
    exec_command_->add_option("session", exec_.session, "the session's id")->required();
    // Everything after the id belongs to the command, whatever it looks like.
    exec_command_->prefix_command();
    exec_command_->footer(
        "COMMAND of one word is a shell command; of several, a program and its arguments.");
    auto* rm_command = add("rm", "remove sessions", [this] {
      return remove_sessions(settings(), ids_, stop_ ? Removal::stop : Removal::remove);
    });
    rm_command->add_option("session", ids_, "ids of sessions")->required();
    rm_command->add_flag("--stop", stop_, "stop them only, keeping their files");
  }

  int run_exec() {
    exec_.words = exec_command_->remaining();
    if (exec_.words.empty()) throw ControlFailure(exit_usage, "exec: a command is required");
    return exec(settings(), exec_);
  }

  void add_egress_commands() {
    CLI::App* egress = app_.add_subcommand("egress", "watch what the egress proxy decides");
    egress->require_subcommand(1);
    CLI::App* log =
        with_json(egress->add_subcommand("log", "print and follow the decisions for a session"));
    log->callback([this] {
      chosen_ = [this] {
        return show_egress_log(settings(), session_, no_follow_ ? Follow::no : Follow::yes, form());
      };
    });
    log->add_flag("--no-follow", no_follow_, "print what is kept and end");
    log->add_option("session", session_, "the session's id")->required();
  }

  void add_host_commands() {
    with_json(add("doctor", "check what the host must have, and say how to mend it",
                  [this] { return doctor(loaded_, form()); }));
    auto* settings_command =
        with_json(add("settings", "list settings with value, source and meaning", [this] {
          return show_settings(loaded_, markdown_ ? Listing::markdown
                                        : json_   ? Listing::json
                                                  : Listing::text);
        }));
    settings_command->add_flag("--markdown", markdown_, "the table of docs/settings.md");
    add_ca_commands();
    with_json(add("version", "print the version", [this] { return show_version(form()); }));
  }

  void add_ca_commands() {
    CLI::App* ca = app_.add_subcommand("ca", "make, check or mend the CA of the egress proxy");
    ca->require_subcommand(1);
    const auto add_one = [&](const char* name, const char* description,
                             int (*action)(const Settings&, CaFiles)) {
      CLI::App* command = ca->add_subcommand(name, description);
      command->callback(
          [this, action] { chosen_ = [this, action] { return action(settings(), ca_files_); }; });
      command->add_option("--cert", ca_files_.certificate,
                          "instead of DAIV_SANDBOX_EGRESS_CA_CERT_FILE");
      command->add_option("--key", ca_files_.key, "instead of DAIV_SANDBOX_EGRESS_CA_KEY_FILE");
    };
    add_one("init", "make a pair that strict clients accept", ca_init);
    add_one("repair", "write a certificate for the same key that strict clients accept", ca_repair);
    add_one("check", "say whether the pair can be used", ca_check);
  }

  CLI::App app_{"daiv-sandbox: a Linux machine for every coding agent, in milliseconds"};
  CLI::App* exec_command_ = nullptr;
  std::function<int()> chosen_;
  LoadedSettings loaded_;
  bool json_ = false;
  bool all_ = false;
  bool stop_ = false;
  bool no_follow_ = false;
  bool markdown_ = false;
  std::string image_;
  std::string source_;
  std::string session_;
  ExecArguments exec_;
  CaFiles ca_files_;
  std::vector<std::string> ids_;
};

int run(int count, char** arguments) {
  try {
    CommandLine command_line;
    return command_line.run(count, arguments);
  } catch (const ControlFailure& error) {
    fmt::print(stderr, "daiv-sandbox: {}\n", error.what());
    return error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "daiv-sandbox: {}\n", error.what());
    return exit_failed;
  }
}

}  // namespace
}  // namespace daiv::cli

int main(int count, char** arguments) { return daiv::cli::run(count, arguments); }
