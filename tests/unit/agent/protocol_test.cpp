#include "agent/protocol.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace daiv::agent {
namespace {

using namespace std::chrono_literals;

struct Sample {
  const char* name;
  std::string bytes;
  std::function<std::string(std::string_view)> again;  // decodes and encodes
};

template <typename Message>
Sample sample(const char* name, const Message& message) {
  return {name, message.encode(),
          [](std::string_view bytes) { return Message::decode(bytes).encode(); }};
}

std::vector<Sample> samples() {
  Config config;
  config.run_uid = 7;
  config.privilege_gain = PrivilegeGain::setuid_only;
  config.max_processes = 99;
  config.environment = {"A=b", "C="};
  config.prune_dirs = {".git"};
  config.trust = {"certificate", "0123abcd", "der", "roots"};
  return {sample("config", config),
          sample("exec", ExecRequest{"echo \xff\n", 1500ms, 77}),
          sample("seed", SeedRequest{1, 2}),
          sample("seed_data", SeedData{SeedTarget::skills, true, std::string_view("a\0b", 3)}),
          sample("terminate", TerminateRequest{2s}),
          sample("exec_done", ExecDone{ExecOutcome::signalled, 9, 1ULL << 40, "text"}),
          sample("seed_done", SeedDone{SeedOutcome::failed, SeedTarget::skills, "why"}),
          sample("status", Status{"/bin/sh", true, 3}),
          sample("failed", Failed{"no"})};
}

TEST(AgentProtocol, EveryMessageSurvivesTheWay) {
  for (const auto& message : samples())
    EXPECT_EQ(message.again(message.bytes), message.bytes) << message.name;
}

TEST(AgentProtocol, EveryTruncationIsRefused) {
  for (const auto& message : samples())
    for (std::size_t length = 0; length < message.bytes.size(); ++length)
      EXPECT_THROW(message.again(std::string_view(message.bytes).substr(0, length)),
                   wire::DecodeError)
          << message.name << " at " << length;
}

TEST(AgentProtocol, BytesAfterAMessageAreRefused) {
  for (const auto& message : samples())
    EXPECT_THROW(message.again(message.bytes + '\0'), wire::DecodeError) << message.name;
}

TEST(AgentProtocol, NoByteChangedMakesAnythingButAMessageOrAnError) {
  for (const auto& message : samples())
    for (std::size_t at = 0; at < message.bytes.size(); ++at)
      for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
        std::string changed = message.bytes;
        changed[at] = value;
        try {
          EXPECT_EQ(message.again(changed), changed) << message.name;
        } catch (const wire::DecodeError&) {
        }
      }
}

TEST(AgentProtocol, ANulInACommandIsRefused) {
  EXPECT_THROW(ExecRequest::decode(ExecRequest{std::string("a\0b", 3), 0ms, 1}.encode()),
               wire::DecodeError);
}

TEST(AgentProtocol, NoDurationIsTooLong) {
  using std::chrono::milliseconds;
  for (const milliseconds asked : {milliseconds(100'000'000'000), milliseconds::max()}) {
    EXPECT_EQ(ExecRequest::decode(ExecRequest{":", asked, 1}.encode()).timeout, asked);
    EXPECT_EQ(TerminateRequest::decode(TerminateRequest{asked}.encode()).grace, asked);
  }
}

TEST(AgentProtocol, NegativeDurationsAreRefused) {
  EXPECT_THROW(TerminateRequest::decode(TerminateRequest{-1ms}.encode()), wire::DecodeError);
  EXPECT_THROW(ExecRequest::decode(ExecRequest{"", -1ms, 1}.encode()), wire::DecodeError);
}

TEST(AgentProtocol, AFrameHasItsLengthAndType) {
  const auto frame = make_frame(7, "abc");
  EXPECT_EQ(frame, std::string("\3\0\0\0\7abc", 8));
  const auto header = parse_frame_header(frame.substr(0, frame_header_bytes), 3);
  EXPECT_EQ(header.length, 3U);
  EXPECT_EQ(header.type, 7);
}

TEST(AgentProtocol, AFrameAboveTheLimitIsRefused) {
  EXPECT_THROW(parse_frame_header(make_frame(7, "abcd").substr(0, frame_header_bytes), 3),
               wire::DecodeError);
  EXPECT_THROW(parse_frame_header("\3\0\0", 3), wire::DecodeError);
}

}  // namespace
}  // namespace daiv::agent
