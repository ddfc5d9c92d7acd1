#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/context.hpp"

namespace daiv::agent {

class FsPool;
class Request;

// Accepts the front's connections, reads the one request of each, and starts the operation that
// answers it.
class Server {
public:
  static constexpr std::size_t max_connections = 256;

  // `listener` is a listening stream socket. Throws os::Error.
  Server(Context& context, os::UniqueFd listener);
  ~Server();

private:
  friend class Request;

  void on_connection();
  // `payload` is empty for those requests whose operation reads it from the connection itself (fs,
  // seed).
  void start(RequestType type, std::string_view payload, std::uint32_t length,
             os::UniqueFd connection);
  Operation::EndCallback end_of(std::uint64_t id);
  void fail(os::UniqueFd connection, std::string_view message);
  void answer_status(os::UniqueFd connection);

  Context& context_;
  os::UniqueFd listener_;
  Watch watch_;
  std::unique_ptr<FsPool> fs_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Operation>> operations_;
};

}  // namespace daiv::agent
