#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::images::test {

struct FakeRequest {
  std::string method;
  std::string target;                         // path and query
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;

  [[nodiscard]] std::string field(const std::string& name) const;
  [[nodiscard]] std::string path() const { return target.substr(0, target.find('?')); }
};

struct FakeResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string body = {};
  std::optional<std::size_t> cut_after =
      {};  // bytes of the body after which the connection is closed
  std::optional<std::size_t> declared_length = {};  // instead of the body's own
  enum class Ending { proper, stall, chunked } ending = Ending::proper;
};

// An HTTP server on loopback that answers as its test says. A client that speaks TLS to it is hung
// up on, as a plain registry does. Ends with its object; a stalled answer is held until then.
class FakeServer {
public:
  using Handler = std::function<FakeResponse(const FakeRequest&)>;
  explicit FakeServer(Handler handler);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::string authority() const;  // "127.0.0.1:41234"
  [[nodiscard]] std::string url() const { return "http://" + authority(); }
  // All requests so far, and those whose path has `part`.
  [[nodiscard]] std::vector<FakeRequest> requests() const;
  [[nodiscard]] std::vector<FakeRequest> requests(const std::string& part) const;
  [[nodiscard]] std::size_t connections() const { return connections_; }

private:
  void accept_all();
  void serve(int socket);
  bool answer(int socket, const FakeRequest& request);

  Handler handler_;
  os::UniqueFd listener_;
  unsigned short port_ = 0;
  mutable std::mutex mutex_;
  std::vector<FakeRequest> requests_;  // guarded by mutex_
  std::list<os::UniqueFd> sockets_;    // guarded by mutex_
  std::list<std::thread> threads_;     // guarded by mutex_
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread acceptor_;
};

}  // namespace daiv::images::test
