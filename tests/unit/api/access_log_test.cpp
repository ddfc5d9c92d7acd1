#include "api/access_log.hpp"

#include <gtest/gtest.h>

namespace daiv::api {
namespace {

AccessRecord record() {
  AccessRecord out;
  out.request_id = "0123456789abcdef";
  out.method = "POST";
  out.route = "/session/{session_id}/";
  out.session_id = "s";
  out.status = 200;
  out.duration = std::chrono::microseconds(1540);
  out.sent_bytes = 7;
  return out;
}

TEST(AccessLog, WritesOneLine) {
  EXPECT_EQ(format_access(record(), LogFormat::text),
            "request=0123456789abcdef method=POST route=/session/{session_id}/ session=s "
            "status=200 duration_ms=1.5 "
            "bytes=7");
  EXPECT_EQ(
      format_access(record(), LogFormat::json),
      R"({"request":"0123456789abcdef","method":"POST","route":"/session/{session_id}/","session":"s",)"
      R"("status":200,"duration_ms":1.5,"bytes":7})");
}

TEST(AccessLog, LetsNoClientForgeAField) {
  AccessRecord forged = record();
  forged.method = "A\"B";
  forged.session_id = "x status=200\n\"" + std::string(1000, 'y');
  const std::string line = format_access(forged, LogFormat::text);
  EXPECT_TRUE(line.contains("session=x?status?200??yyy")) << line;
  EXPECT_LT(line.size(), 300U);
  EXPECT_TRUE(format_access(forged, LogFormat::json).contains(R"("method":"A?B")"));
}

}  // namespace
}  // namespace daiv::api
