#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/broker_protocol.hpp"

namespace daiv::sessions {

using Time = std::chrono::system_clock::time_point;

enum class SessionState { running, stopped };
enum class Seeded { no, yes };

// What the daemon remembers of a session, on disk: enough to start it again on its writable layer.
struct SessionRecord {
  std::string id;  // a version 4 UUID
  std::string image_id;
  std::string image_reference;           // as it was found, for people
  std::vector<std::string> layers;       // names of layer directories, bottom first
  std::vector<std::string> environment;  // NAME=value, the whole environment of its commands
  runtime::Limits limits;
  std::uint32_t uid_base = 0;
  std::uint32_t run_uid = 0;
  std::uint32_t run_gid = 0;
  SessionState state = SessionState::running;
  Seeded seeded = Seeded::no;
  Time created;
  Time last_used;  // when an operation last began or ended
  Time stopped;    // meaningful where `state` is stopped
  // Of the proxy, as the sandbox knows it; 0: a session without egress.
  std::uint16_t egress_port = 0;
};

// A new random id (RFC 9562 §5.4).
std::string make_session_id();

}  // namespace daiv::sessions
