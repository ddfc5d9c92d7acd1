#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What the HTTP surface is configured with; cli reads it from the environment.
namespace daiv::api {

enum class Environment { local, production };  // local: answers of 500 say what failed
enum class LogFormat { text, json };

// Bounds on what a client can make the server hold or wait for.
struct Limits {
  std::size_t max_connections = 4096;
  std::size_t max_json_bytes = 1U << 20;   // body of create, egress and the small file operations
  std::size_t max_run_bytes = 64U << 20;   // body of run
  std::size_t max_file_bytes = 64U << 20;  // body of fs/write and fs/edit
  std::uint64_t max_seed_bytes = 16ULL << 30;  // multipart body of seed
  // Bodies held in memory, of all requests together; 503 above.
  std::size_t max_buffered_body_bytes = 512U << 20;
  std::size_t max_unauthorised_bytes = 64U << 10;  // JSON body of a request without the right key
  std::size_t max_drain_bytes =
      256U << 10;  // of a body that nobody wants, read so that the connection can go on
  std::size_t max_linger_bytes =
      1U << 30;  // read from a client that is still sending after its answer
  std::size_t max_read_ahead_bytes = 64U << 10;  // of pipelined requests
};

struct Timeouts {
  std::chrono::milliseconds tls_handshake{10'000};
  std::chrono::milliseconds tls_poll{2'000};  // between two looks at the certificate's files
  std::chrono::milliseconds head{15'000};     // from a request's first byte to the end of its head
  std::chrono::milliseconds idle{75'000};     // between two requests
  std::chrono::milliseconds body_window{
      30'000};  // of waiting for the body: it must bring min_body_bytes, or 408
  std::size_t min_body_bytes = 4U << 10;
  std::chrono::milliseconds write{60'000};  // for one piece of an answer to be taken
  std::chrono::milliseconds linger{5'000};
  std::chrono::milliseconds drain{30'000};  // for requests in flight when the server stops
};

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // the chain, leaf first
  std::string key;          // without passphrase
};

struct ServerSettings {
  std::string api_key;             // not empty
  std::string prefix = "/api/v1";  // every route is served at the root and below it; may be empty
  std::string version;
  Environment environment = Environment::production;
  LogFormat log_format = LogFormat::text;
  std::string host = "0.0.0.0";
  std::optional<std::uint16_t> port = 8000;  // 0: chosen by the kernel; empty: no TCP listener
  // Listening sockets to take over besides (AF_INET, AF_INET6 or AF_UNIX); owned by the server.
  std::vector<int> listener_fds = {};
  std::string unix_socket = {};      // path of a further listener, without TLS; empty: none
  std::optional<TlsFiles> tls = {};  // for all that comes over TCP; empty: plain HTTP
  Limits limits = {};
  Timeouts timeouts = {};
};

}  // namespace daiv::api
