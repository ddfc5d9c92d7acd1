#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <list>

#include "agent/context.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// Hands file operations to confined worker processes, which read the request from the connection
// and answer on it themselves. Workers are forked when they are needed, kept for later requests,
// and sent home when they have been idle. They can be killed by others of the sandbox's user: a
// request that such a worker had not taken up goes to the next, a few times.
class FsPool {
public:
  static constexpr std::size_t max_workers = 4;
  static constexpr std::size_t max_waiting = 128;
  static constexpr int max_tries = 4;

  explicit FsPool(Context& context) : context_(context) {}
  ~FsPool();

  // `connection` stands before the payload of `length` bytes. More than max_waiting requests:
  // `failed`.
  void submit(os::UniqueFd connection, std::uint32_t length);

private:
  struct Job {
    os::UniqueFd connection;
    std::uint32_t length = 0;
    int tries = 0;
  };
  struct Worker {
    pid_t pid = 0;
    os::UniqueFd control;
    os::UniqueFd inbox;  // the worker's end of it: keeps what a worker that ends has not read
    Watch control_watch;
    Job job;
    Watch front_watch;
    bool busy = false;
    bool answering = false;
    bool retiring = false;
    Timer idle;
  };
  using Position = std::list<Worker>::iterator;

  void place(Job job);
  Position start_worker();
  void give(Position worker, Job job);
  void give_waiting();
  void on_control(Position worker);
  void on_front_gone(Position worker);
  void on_exit(Position worker);
  static bool take_back(const Worker& worker);
  void rest(Position worker);
  void retire(Position worker);

  Context& context_;
  std::list<Worker> workers_;
  std::deque<Job> waiting_;
};

}  // namespace daiv::agent
