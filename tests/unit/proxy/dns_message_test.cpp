#include "proxy/dns_message.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace daiv::proxy {
namespace {

using namespace std::string_literals;

constexpr std::uint32_t synthetic = 0x64700102;
constexpr std::uint16_t type_a = 1;

std::string number(unsigned value) {
  return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

std::string labels(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const auto label = name.substr(0, name.find('.'));
    out += static_cast<char>(label.size());
    out += label;
    name.remove_prefix(std::min(name.size(), label.size() + 1));
  }
  return out + '\0';
}

std::string header(unsigned flags, unsigned questions, unsigned answers = 0, unsigned more = 0) {
  return "id" + number(flags) + number(questions) + number(answers) + number(0) + number(more);
}

std::string query(std::string_view name, std::uint16_t type, std::uint16_t record_class = 1) {
  return header(0x0100, 1) + labels(name) + number(type) + number(record_class);
}

std::vector<std::string> asked;

std::string answer(const std::string& message) {
  asked.clear();
  return answer_dns_query(message, [](const HostName& name) {
    asked.push_back(name.text());
    return synthetic;
  });
}

int code_of(const std::string& reply) { return reply.at(3) & 0x0f; }
unsigned records_of(const std::string& reply) {
  const auto byte = [&](std::size_t at) -> unsigned {
    return static_cast<unsigned char>(reply.at(at));
  };
  return byte(6) << 8U | byte(7);
}

TEST(DnsMessage, AnswersAnAddressForAName) {
  const std::string asking = query("Allowed.TEST", type_a);
  EXPECT_EQ(answer(asking), "id" + number(0x8180) + number(1) + number(1) + number(0) + number(0) +
                                asking.substr(12) + number(0xc00c) + number(1) + number(1) +
                                number(0) + number(60) + number(4) + "\x64\x70\x01\x02");
  EXPECT_EQ(asked, std::vector<std::string>{"allowed.test"});
}

TEST(DnsMessage, HasNoRecordOfAnotherType) {
  for (const std::uint16_t type : std::vector<std::uint16_t>{2, 5, 15, 16, 28, 33, 64, 65, 255}) {
    const std::string reply = answer(query("allowed.test", type));
    EXPECT_EQ(code_of(reply), 0) << type;
    EXPECT_EQ(records_of(reply), 0U) << type;
    EXPECT_TRUE(asked.empty()) << type;
  }
}

TEST(DnsMessage, KnowsNoNameThatIsNoHosts) {
  for (const char* name : {"1.2.3.4", "4.3.2.1.in-addr.arpa", "a b.test", "a/b.test", "arpa"}) {
    const std::string reply = answer(query(name, type_a));
    EXPECT_EQ(code_of(reply), 3) << name;
    EXPECT_TRUE(asked.empty()) << name;
  }
  const std::string dotted = header(0x0100, 1) +
                             "\x05"
                             "a.b.c\0"s +
                             number(1) + number(1);
  EXPECT_EQ(code_of(answer(dotted)), 3);
}

TEST(DnsMessage, LeavesLocalhostInTheSandbox) {
  EXPECT_TRUE(answer(query("localhost", type_a)).ends_with("\x7f\0\0\x01"s));
  EXPECT_TRUE(answer(query("a.localhost", 28)).ends_with(std::string(15, '\0') + "\x01"));
  EXPECT_TRUE(asked.empty());
  answer(query("notlocalhost", type_a));
  EXPECT_EQ(asked.size(), 1U);
}

TEST(DnsMessage, TakesNoNoticeOfEdns) {
  const std::string option = "\0"s + number(41) + number(1232) + number(0) + number(0) + number(0);
  const std::string asking = header(0x0120, 1, 0, 1) + query("allowed.test", type_a).substr(12);
  EXPECT_EQ(records_of(answer(asking + option)), 1U);
}

TEST(DnsMessage, SaysNothingToAReplyOrToLessThanAHeader) {
  EXPECT_EQ(answer(header(0x8180, 1) + query("a.test", type_a).substr(12)), "");
  EXPECT_EQ(answer("id\x01"), "");
  EXPECT_EQ(answer(""), "");
}

TEST(DnsMessage, RefusesWhatItCannotRead) {
  const std::string whole = query("allowed.test", type_a);
  for (std::size_t size = 12; size < whole.size(); ++size)
    EXPECT_EQ(code_of(answer(whole.substr(0, size))), 1) << size;
  const std::string pointer = header(0x0100, 1) + "\xc0\x0c"s + number(1) + number(1);
  EXPECT_EQ(code_of(answer(pointer)), 1);
  std::string endless = header(0x0100, 1);
  for (int label = 0; label < 8; ++label) endless += "\x3f" + std::string(63, 'a');
  EXPECT_EQ(code_of(answer(endless + '\0' + number(1) + number(1))), 1);
  EXPECT_EQ(code_of(answer(header(0x0100, 2) + whole.substr(12) + whole.substr(12))), 1);
  EXPECT_EQ(code_of(answer(header(0x0100, 0))), 1);
  EXPECT_EQ(code_of(answer(header(0x2800, 1) + whole.substr(12))), 4);
  EXPECT_EQ(code_of(answer(query("allowed.test", type_a, 3))), 5);
}

}  // namespace
}  // namespace daiv::proxy
