#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/process.hpp"
#include "os/service_manager.hpp"
#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"
#include "runtime/operations.hpp"
#include "runtime/worker.hpp"

namespace daiv::runtime {

// The broker's one loop. It takes requests from the front, gives each to a process of its own,
// passes the answer on and reaps; it never does anything itself that could block. Operations on one
// session run one after the other in the order they came, all others side by side. A request whose
// process dies gets its answer from here.
//
// A process that has done its operation well waits for another one (runtime/worker.hpp): what a new
// one costs is its page tables and the first touch of each page. After a failure it ends.
class Broker {
public:
  // `front` is the connected SEQPACKET socket. Single-threaded.
  Broker(os::UniqueFd front, Operations& operations, os::Watchdog watchdog);

  // Returns when the front's socket is closed and the operations that ran then have ended.
  void run();

private:
  using Clock = std::chrono::steady_clock;
  // Those that lend sockets answer with descriptors of which none is an agent's.
  enum class Kind : std::uint8_t { request, creation, lending, clean_up, housekeeping };
  struct Waiting {
    RequestMessage message;
    std::string bytes;  // the message, as it came
    std::vector<os::UniqueFd> fds;
  };
  // A child, its descriptors watched.
  struct Process {
    pid_t pid = -1;
    os::UniqueFd channel;  // its answers come here
    os::UniqueFd pidfd;
  };
  struct Running {
    Kind kind = Kind::request;
    std::uint32_t number = 0;
    std::string session;  // empty: ordered after nothing
    Process process;
    std::string answer;  // of a creation that died: sent when all is cleaned up
    bool answered = false;
    Stay stay = Stay::ends;    // of the process, when it has answered
    bool leaves_work = false;  // for the housekeeping
  };
  struct Ready {
    std::uint32_t front = 0;        // EPOLL* of the front's socket
    std::vector<pid_t> operations;  // whose reply can be read
    std::vector<int> agents;        // that have ended
  };
  struct Outgoing {
    std::string bytes;
    std::vector<os::UniqueFd> fds;
  };

  void watch(const os::UniqueFd& fd, std::uint32_t events);
  void unwatch(const os::UniqueFd& fd);
  void receive_requests();
  void accept_request(std::string_view bytes, std::vector<os::UniqueFd> fds);
  static Kind kind_of(const Request& request);
  void start_request(Waiting waiting);
  template <typename Work>
  Process fork_process(Work&& work);
  template <typename Work>
  pid_t start(Kind kind, std::uint32_t number, const std::string& session, std::string answer,
              Work&& work);
  pid_t start_on_worker(Kind kind, Waiting& waiting);
  void rest(pid_t worker);
  void let_go(Process process);
  void forget_worker(pid_t pid);
  void start_next(const std::string& session);
  void note_work();
  // After how long the housekeeping begins; nothing where it has nothing to do, or is at it.
  [[nodiscard]] std::optional<std::chrono::milliseconds> housekeeping_delay() const;
  void start_housekeeping();
  void receive_reply(Running& operation);
  std::chrono::milliseconds next_duty();
  // What is there to do; blocks until something is.
  [[nodiscard]] Ready wait();
  std::vector<os::Reaped> reap();
  void forget_agents(std::span<const int> ended);
  void finish(pid_t pid, os::ExitStatus status);
  void send(std::string bytes, std::vector<os::UniqueFd> fds);
  void send_failure(std::uint32_t number, Failure kind, std::string text);
  void flush_outgoing();
  void close_inherited();

  os::UniqueFd front_;
  os::UniqueFd epoll_;
  Operations& operations_;
  os::Watchdog watchdog_;
  bool front_open_ = true;
  std::map<pid_t, Running> running_;
  std::vector<Process> idle_;  // workers without an operation
  std::map<std::string, std::deque<Waiting>>
      waiting_;                         // an entry exists while an operation of the session runs
  std::map<int, os::UniqueFd> agents_;  // pidfds by number: their end wakes the loop, which reaps
  std::deque<Outgoing> outgoing_;
  bool keeping_house_ = false;
  // Since, or from, when there is something to do for it. An earlier broker may have left
  // something.
  std::optional<Clock::time_point> work_since_ = Clock::now();
};

}  // namespace daiv::runtime
