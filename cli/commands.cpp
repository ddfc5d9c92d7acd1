#include "cli/commands.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>

#include "cli/control_client.hpp"
#include "cli/control_protocol.hpp"
#include "cli/progress_display.hpp"
#include "cli/tar_stream.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

using nlohmann::json;

namespace daiv::cli {
namespace {

os::UniqueFd connect_or_fail(const Settings& settings) {
  auto daemon = connect_to_daemon(settings.runtime_dir);
  if (daemon) return std::move(*daemon);
  throw ControlFailure(
      exit_unavailable,
      fmt::format("no daemon answers at {}; start one with: daiv-sandbox serve (or set "
                  "DAIV_SANDBOX_RUNTIME_DIR as it has it)",
                  control_socket_path(settings.runtime_dir)));
}

void print(const json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, json::error_handler_t::replace));
}

std::string describe_age(std::int64_t seconds) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::int64_t age = std::max<std::int64_t>(0, now - seconds);
  if (age < 120) return fmt::format("{}s", age);
  if (age < 7200) return fmt::format("{}m", age / 60);
  if (age < 172800) return fmt::format("{}h", age / 3600);
  return fmt::format("{}d", age / 86400);
}

std::string describe_size(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void print_image(const json& image) {
  fmt::print("{}  {:.19}  {} layers  {}  used {} ago\n", image.at("reference").get<std::string>(),
             image.at("id").get<std::string>(), image.at("layers").get<std::uint64_t>(),
             describe_size(image.at("unpacked_bytes")), describe_age(image.at("last_used")));
}

// Writes the layout's files into the pipe beside the request; a daemon that refuses early closes
// its end.
class TarWriter {
public:
  explicit TarWriter(const std::string& directory) : pipe_(os::make_pipe()) {
    thread_ = std::thread([this, directory] {
      try {
        write_tar(directory, pipe_.write_end);
      } catch (const os::Error& error) {
        if (error.error_number() != EPIPE) failure_ = std::current_exception();
      } catch (...) {  // rethrown by finish()
        failure_ = std::current_exception();
      }
      pipe_.write_end.reset();
    });
  }
  ~TarWriter() { join(); }
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  [[nodiscard]] int read_end() const { return pipe_.read_end.get(); }
  void finish() {
    join();
    if (failure_) std::rethrow_exception(failure_);
  }

private:
  // Our read end goes first: a writer whose reader has gone must not wait for ever.
  void join() {
    pipe_.read_end.reset();
    if (thread_.joinable()) thread_.join();
  }
  os::Pipe pipe_;
  std::exception_ptr failure_;
  std::thread thread_;
};

json load_from(const Settings& settings, const std::string& source,
               const ControlObserver& observer) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  const json request = {{"command", "load"}};
  if (source == "-") return ask_daemon(daemon, request, observer, {STDIN_FILENO});
  const os::UniqueFd opened = os::open_file(source, O_RDONLY);
  struct stat status{};
  os::check(::fstat(opened.get(), &status), "fstat", source);
  if (!S_ISDIR(status.st_mode)) return ask_daemon(daemon, request, observer, {opened.get()});
  TarWriter writer(source);
  json loaded = ask_daemon(daemon, request, observer, {writer.read_end()});
  writer.finish();
  return loaded;
}

}  // namespace

int pull(const Settings& settings, const std::string& reference, Form form) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  ProgressDisplay display(form == Form::json ? ProgressDisplay::Style::none
                                             : ProgressDisplay::style_for_stdout());
  const json image = ask_daemon(daemon, {{"command", "pull"}, {"reference", reference}},
                                {.event = [&](const json& event) { display.show(event); }});
  display.finish();
  if (form == Form::json) {
    print(image);
  } else {
    print_image(image);
  }
  return exit_ok;
}

int load(const Settings& settings, const std::string& source, Form form) {
  std::signal(SIGPIPE, SIG_IGN);  // a daemon that refuses early is told by its answer
  ProgressDisplay display(form == Form::json ? ProgressDisplay::Style::none
                                             : ProgressDisplay::style_for_stdout());
  const json images =
      load_from(settings, source, {.event = [&](const json& event) { display.show(event); }});
  display.finish();
  if (form == Form::json) {
    print(images);
  } else {
    for (const auto& image : images) print_image(image);
  }
  return exit_ok;
}

int list_images(const Settings& settings, Form form) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  const json images = ask_daemon(daemon, {{"command", "images"}});
  if (form == Form::json) {
    print(images);
  } else {
    for (const auto& image : images) print_image(image);
  }
  return exit_ok;
}

int list_sessions(const Settings& settings, Form form) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  const json sessions = ask_daemon(daemon, {{"command", "ps"}});
  if (form == Form::json) {
    print(sessions);
    return exit_ok;
  }
  fmt::print("{:36}  {:8}  {:8}  {:8}  {}\n", "SESSION", "STATE", "AGE", "UNUSED", "IMAGE");
  for (const auto& session : sessions) {
    fmt::print("{:36}  {:8}  {:8}  {:8}  {}\n", session.at("id").get<std::string>(),
               session.at("state").get<std::string>(), describe_age(session.at("created")),
               describe_age(session.at("last_used")), session.at("image").get<std::string>());
  }
  return exit_ok;
}

std::string plan_shell_command(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  std::string command;
  for (const auto& word : words) {
    if (!command.empty()) command += ' ';
    command += '\'';
    for (const char letter : word) letter == '\'' ? command += "'\\''" : command += letter;
    command += '\'';
  }
  return command;
}

int exec(const Settings& settings, const ExecArguments& arguments) {
  try {
    const os::UniqueFd daemon = connect_or_fail(settings);
    json request = {{"command", "exec"},
                    {"session", arguments.session},
                    {"shell", plan_shell_command(arguments.words)}};
    if (arguments.timeout_seconds != 0) request["timeout"] = arguments.timeout_seconds;
    const json end = ask_daemon(daemon, request, {.output = [](std::string_view bytes) {
                                  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
                                }});
    std::fflush(stdout);
    return end.at("exit_code").get<int>();
  } catch (const std::exception& error) {  // codes below 125 belong to the command
    fmt::print(stderr, "daiv-sandbox: {}\n", error.what());
    return exit_exec_failed;
  }
}

int remove_sessions(const Settings& settings, const std::vector<std::string>& ids,
                    Removal removal) {
  int code = exit_ok;
  for (const auto& id : ids) {
    try {
      const os::UniqueFd daemon = connect_or_fail(settings);
      ask_daemon(daemon, {{"command", "rm"}, {"session", id}, {"stop", removal == Removal::stop}});
      fmt::print("{}\n", id);
    } catch (const ControlFailure& error) {  // the others are removed all the same
      fmt::print(stderr, "daiv-sandbox: {}: {}\n", id, error.what());
      code = error.code();
    }
  }
  return code;
}

// Line by line and flushed, for a pipe into another program.
int show_egress_log(const Settings& settings, const std::string& session, Follow follow,
                    Form form) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  const json request = {
      {"command", "egress_log"}, {"session", session}, {"follow", follow == Follow::yes}};
  ask_daemon(daemon, request, {.event = [&](const json& event) {
               fmt::print("{}\n", form == Form::json ? event.at("entry").dump()
                                                     : event.at("text").get<std::string>());
               std::fflush(stdout);
             }});
  return exit_ok;
}

int prune(const Settings& settings, PruneWhat what, Form form) {
  const os::UniqueFd daemon = connect_or_fail(settings);
  const json report =
      ask_daemon(daemon, {{"command", "prune"}, {"all", what == PruneWhat::unused_images}});
  if (form == Form::json) {
    print(report);
    return exit_ok;
  }
  for (const auto& image : report.at("images")) fmt::print("{}\n", image.get<std::string>());
  fmt::print("{} layers removed, {} freed\n", report.at("layers").get<std::uint64_t>(),
             describe_size(report.at("freed_bytes")));
  return exit_ok;
}

}  // namespace daiv::cli
