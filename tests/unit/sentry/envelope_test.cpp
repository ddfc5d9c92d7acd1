#include "sentry/envelope.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace daiv::sentry {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

struct Parsed {
  Json header;
  Json item;
  Json payload;
};

// Reads an envelope as its receiver does: the payload's length is the item header's.
Parsed parse(const std::string& envelope) {
  std::istringstream stream(envelope);
  std::string header;
  std::string item;
  std::getline(stream, header);
  std::getline(stream, item);
  Parsed parsed{Json::parse(header), Json::parse(item), {}};
  std::string payload(parsed.item.at("length").get<std::size_t>(), '\0');
  stream.read(payload.data(), static_cast<std::streamsize>(payload.size()));
  parsed.payload = Json::parse(payload);
  return parsed;
}

const Process process{"daiv-sandbox@1.2.3", "production", "host1", Pii::stripped, 0.25, 0.5};
const Ids ids{std::string(32, 'a'), std::string(32, 'b'), std::string(16, 'c')};
const Request request{
    "r1",   "POST",      "/session/{session_id}/",
    "s1",   200,         Time(1000s),
    2500us, "192.0.2.7", {{"User-Agent", "curl"}, {"X-API-Key", "hunter2"}, {"Cookie", "hunter2"}}};

TEST(EventEnvelope, HoldsLevelTextAndRelease) {
  const auto parsed =
      parse(make_event_envelope(process, ids, {Time(5s), Level::error, "front", "it broke"}));
  EXPECT_EQ(parsed.header.at("event_id"), ids.event_id);
  EXPECT_EQ(parsed.item.at("type"), "event");
  EXPECT_EQ(parsed.payload.at("level"), "error");
  EXPECT_EQ(parsed.payload.at("message").at("formatted"), "it broke");
  EXPECT_EQ(parsed.payload.at("release"), "daiv-sandbox@1.2.3");
  EXPECT_EQ(parsed.payload.at("environment"), "production");
  EXPECT_DOUBLE_EQ(parsed.payload.at("timestamp").get<double>(), 5.0);
}

TEST(EventEnvelope, BytesThatAreNoUtf8DoNotLoseTheEvent) {
  const auto parsed =
      parse(make_event_envelope(process, ids, {Time(5s), Level::error, "front", "a\xff z"}));
  EXPECT_EQ(parsed.payload.at("message").at("formatted"), "a\uFFFD z");
}

TEST(LogEnvelope, CountsItsItems) {
  const std::vector<LogRecord> records{{Time(1s), Level::info, "l", "one"},
                                       {Time(2s), Level::warning, "l", "two"}};
  const auto parsed = parse(make_log_envelope(process, ids, records));
  EXPECT_EQ(parsed.item.at("type"), "log");
  EXPECT_EQ(parsed.item.at("item_count"), 2);
  EXPECT_EQ(parsed.payload.at("items").at(1).at("level"), "warn");
  EXPECT_EQ(parsed.payload.at("items").at(0).at("body"), "one");
}

TEST(TransactionEnvelope, NamesTheRouteAndTakesTheTime) {
  const auto parsed = parse(make_transaction_envelope(process, ids, request));
  EXPECT_EQ(parsed.item.at("type"), "transaction");
  EXPECT_EQ(parsed.payload.at("transaction"), "POST /session/{session_id}/");
  EXPECT_NEAR(parsed.payload.at("timestamp").get<double>() -
                  parsed.payload.at("start_timestamp").get<double>(),
              0.0025, 1e-6);
  const auto& trace = parsed.payload.at("contexts").at("trace");
  EXPECT_EQ(trace.at("status"), "ok");
  EXPECT_EQ(trace.at("data").at("profiles_sample_rate"), 0.5);
}

TEST(TransactionEnvelope, WithoutPiiHoldsNeitherAddressNorHeaders) {
  const auto envelope = make_transaction_envelope(process, ids, request);
  EXPECT_EQ(envelope.find("192.0.2.7"), std::string::npos);
  EXPECT_EQ(envelope.find("curl"), std::string::npos);
}

TEST(TransactionEnvelope, WithPiiHoldsAddressAndHeadersButNeverAKey) {
  auto open = process;
  open.pii = Pii::sent;
  const auto envelope = make_transaction_envelope(open, ids, request);
  EXPECT_NE(envelope.find("192.0.2.7"), std::string::npos);
  EXPECT_NE(envelope.find("curl"), std::string::npos);
  EXPECT_EQ(envelope.find("hunter2"), std::string::npos);
}

TEST(Ids, AreHexadecimalAndDiffer) {
  const auto first = make_ids();
  EXPECT_EQ(first.event_id.size(), 32U);
  EXPECT_EQ(first.span_id.size(), 16U);
  EXPECT_EQ(first.event_id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first.event_id, make_ids().event_id);
}

}  // namespace
}  // namespace daiv::sentry
