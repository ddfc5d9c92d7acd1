#include "runtime/broker_protocol.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "os/error.hpp"
#include "os/socket.hpp"
#include "runtime/broker_client.hpp"
#include "runtime/names.hpp"

namespace daiv::runtime {
namespace {

const std::string session = "0123456789abcdef0123456789abcdef";
const std::string digest = "sha256:" + std::string(64, 'a');

CreateSandbox creation() {
  CreateSandbox request;
  request.session = session;
  request.uid_base = 7;
  request.layers = {"aaaaaa", "b00000"};
  request.run_uid = 1000;
  request.run_gid = 1001;
  request.hostname = "box.example";
  request.limits = {1, 2, 3};
  request.no_new_privs = false;
  request.egress = EgressLink{0x647c0001, 0x647c0002, 8080};
  return request;
}

std::vector<Request> all_requests() {
  return {
      creation(),
      KillSandbox{session},
      RemoveSandbox{session},
      ListSandboxes{},
      AdoptSandbox{session, 8080},
      UnpackLayer{"aaaaaa", digest, 5, 6, {"aaaaab", "aaaaac"}, true},
      RemoveLayers{{"aaaaaa"}},
      ListLayers{},
      RunCredentialHelper{"ecr-login", "https://registry.example"},
      ProbeHost{},
      OpenUpstreamSockets{OpenUpstreamSockets::Family::inet6, OpenUpstreamSockets::Type::datagram}};
}

std::vector<Answer> all_answers() {
  return {Failed{Failure::range_taken, "text"},
          Done{},
          Created{1, 2},
          Inventory{{{session, true, false}}},
          Unpacked{digest, 3, 4, true, false},
          Layers{{"aaaaaa"}},
          Credential{"{}"},
          HostReport{{"kernel", "ok"}},
          UpstreamSockets{{1ULL << 63U, 7}}};
}

// A message may end in a link of the wrong kind only by being refused.
TEST(BrokerProtocol, LinksOutOfRangeAreRefused) {
  for (const EgressLink& link :
       {EgressLink{0, 2, 80}, EgressLink{1, 0, 80}, EgressLink{7, 7, 80}, EgressLink{1, 2, 0}}) {
    CreateSandbox request = creation();
    request.egress = link;
    EXPECT_THROW(decode_request(encode(RequestMessage{1, request})), wire::DecodeError);
  }
  std::string bytes = encode(RequestMessage{1, creation()});
  bytes[bytes.size() - 2] = 1;  // the third byte of the port: above 65535
  EXPECT_THROW(decode_request(bytes), wire::DecodeError);
}

TEST(BrokerProtocol, ALinkSurvivesTheWire) {
  const RequestMessage decoded = decode_request(encode(RequestMessage{1, creation()}));
  EXPECT_EQ(std::get<CreateSandbox>(decoded.body).egress, creation().egress);
  const RequestMessage adopted =
      decode_request(encode(RequestMessage{1, AdoptSandbox{session, 9}}));
  EXPECT_EQ(std::get<AdoptSandbox>(adopted.body).egress_port, 9);
}

TEST(BrokerProtocol, AFrontChoosesFamilyAndTypeOfAnUpstreamSocketAndNothingElse) {
  const std::string bytes = encode(RequestMessage{1, OpenUpstreamSockets{}});
  EXPECT_EQ(bytes.size(), 4U + 1 + 2);
  for (const std::size_t field : {bytes.size() - 2, bytes.size() - 1})
    for (const char value : {'\2', '\3', '\x10', '\x7f', '\xff'}) {
      std::string hostile = bytes;
      hostile[field] = value;
      EXPECT_THROW(decode_request(hostile), wire::DecodeError) << field;
    }
}

TEST(BrokerProtocol, RequestsSurviveTheWire) {
  for (const Request& request : all_requests()) {
    const std::string bytes = encode(RequestMessage{9, request});
    const RequestMessage decoded = decode_request(bytes);
    EXPECT_EQ(decoded.number, 9U);
    EXPECT_EQ(decoded.body.index(), request.index());
    EXPECT_EQ(encode(decoded), bytes);
  }
}

TEST(BrokerProtocol, AnswersSurviveTheWire) {
  for (const Answer& answer : all_answers()) {
    const std::string bytes = encode(AnswerMessage{9, answer});
    const AnswerMessage decoded = decode_answer(bytes);
    EXPECT_EQ(decoded.body.index(), answer.index());
    EXPECT_EQ(encode(decoded), bytes);
  }
}

TEST(BrokerProtocol, RefusesEveryTruncationAndEveryAddition) {
  for (const Request& request : all_requests()) {
    const std::string bytes = encode(RequestMessage{9, request});
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_request(bytes.substr(0, size)), wire::DecodeError)
          << request.index() << " " << size;
    EXPECT_THROW(decode_request(bytes + "x"), wire::DecodeError);
  }
  for (const Answer& answer : all_answers()) {
    const std::string bytes = encode(AnswerMessage{9, answer});
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_answer(bytes.substr(0, size)), wire::DecodeError)
          << answer.index() << " " << size;
    EXPECT_THROW(decode_answer(bytes + "x"), wire::DecodeError);
  }
}

TEST(BrokerProtocol, RefusesUnknownTypes) {
  wire::Writer out;
  out.u32(1).u8(200);
  EXPECT_THROW(decode_request(out.bytes()), wire::DecodeError);
  EXPECT_THROW(decode_answer(out.bytes()), wire::DecodeError);
}

TEST(BrokerProtocol, RefusesNamesOutsideTheirAlphabet) {
  for (const std::string& name :
       {std::string("../../x"), std::string("aaaaa/"), std::string("aaaa"), std::string("AAAAAA"),
        std::string("aa,aaa"), std::string("aa:aaa"), std::string("aaaaa\0", 6)}) {
    EXPECT_THROW(decode_request(encode(RequestMessage{1, UnpackLayer{name, "", 1, 1}})),
                 wire::DecodeError)
        << name;
    EXPECT_THROW(decode_request(encode(RequestMessage{1, RemoveLayers{{name}}})), wire::DecodeError)
        << name;
  }
  for (const char* id :
       {"", "..", "0123456789abcdef0123456789abcdeF", "0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef/..", "0123456-89abcdef-0123-456789abcdef-00"}) {
    EXPECT_THROW(decode_request(encode(RequestMessage{1, KillSandbox{id}})), wire::DecodeError)
        << id;
  }
  EXPECT_THROW(decode_request(encode(RequestMessage{1, RunCredentialHelper{"../sh", "s"}})),
               wire::DecodeError);
  EXPECT_THROW(decode_request(encode(RequestMessage{1, RunCredentialHelper{"ecr", "a\nb"}})),
               wire::DecodeError);
}

TEST(Names, TakeBothFormsOfASessionId) {
  EXPECT_TRUE(is_session_id(session));
  EXPECT_TRUE(is_session_id("01234567-89ab-cdef-0123-456789abcdef"));
  EXPECT_FALSE(is_session_id("01234567-89ab-cdef-0123-456789abcde-"));
}

TEST(Names, HostnamesAreLabels) {
  EXPECT_TRUE(is_hostname("a"));
  EXPECT_TRUE(is_hostname("a-b.C1"));
  for (const char* bad : {"", ".", "a..b", "-a", "a-", "a b", "a/b", "a\nb"})
    EXPECT_FALSE(is_hostname(bad)) << bad;
  EXPECT_FALSE(is_hostname(std::string(65, 'a')));
}

TEST(BrokerClient, HandsAnswersToTheirCallersInAnyOrder) {
  auto [front, back] = os::make_socket_pair(os::SocketKind::seqpacket);
  BrokerClient client(std::move(front));
  std::thread broker([&peer = back] {
    const auto first = os::receive_message(peer, max_broker_message_bytes);
    const auto second = os::receive_message(peer, max_broker_message_bytes);
    for (const auto* message : {&*second, &*first}) {
      const RequestMessage request = decode_request(message->data);
      const auto& id = std::get<KillSandbox>(request.body).session;
      os::send_message(peer, encode(AnswerMessage{request.number, Failed{Failure::not_found, id}}));
    }
  });
  const std::string other(32, 'b');
  std::thread caller(
      [&] { EXPECT_EQ(std::get<Failed>(client.call(KillSandbox{other}).answer).message, other); });
  EXPECT_EQ(std::get<Failed>(client.call(KillSandbox{session}).answer).message, session);
  caller.join();
  broker.join();
}

TEST(BrokerClient, EveryCallFailsWhenTheBrokerIsGone) {
  auto [front, back] = os::make_socket_pair(os::SocketKind::seqpacket);
  BrokerClient client(std::move(front));
  std::thread broker([&peer = back] {
    os::receive_message(peer, max_broker_message_bytes);
    peer.reset();
  });
  EXPECT_THROW(client.call(ListLayers{}), os::Error);
  broker.join();
  EXPECT_THROW(client.call(ListLayers{}), os::Error);
}

}  // namespace
}  // namespace daiv::runtime
