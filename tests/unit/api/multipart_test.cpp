#include "api/multipart.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "api/form_header.hpp"

namespace daiv::api {
namespace {

// The events of a body, as text; the data of a part is joined.
std::string events(std::string_view boundary, std::string_view body, std::size_t step) {
  MultipartParser parser(boundary);
  std::string out;
  std::string data;
  for (;;) {
    MultipartEvent event = parser.next();
    if (const PartBegin* part = std::get_if<PartBegin>(&event)) {
      out += "part(" + part->name.value_or("-") + "," + part->filename.value_or("-") + ")";
    } else if (const PartData* piece = std::get_if<PartData>(&event)) {
      EXPECT_FALSE(piece->bytes.empty());
      data += piece->bytes;
    } else if (std::holds_alternative<PartEnd>(event)) {
      out += "[" + std::exchange(data, "") + "]";
    } else if (std::holds_alternative<BodyEnd>(event)) {
      return out + "end";
    } else if (std::holds_alternative<MalformedBody>(event)) {
      return out + "malformed";
    } else if (body.empty()) {
      return out + (parser.inside_part() ? "cut" : "more");
    } else {
      parser.append(body.substr(0, step));
      body.remove_prefix(std::min(step, body.size()));
    }
  }
}

struct Body {
  std::string bytes;
  std::string events;
};

const std::vector<Body> bodies{
    {"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ntext\r\n--x--\r\n",
     "part(a,-)[text]end"},
    {"--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f\"\r\nContent-Type: "
     "x/y\r\n\r\n\r\n--x--",
     "part(a,f)[]end"},
    {"\r\n\r\n--x\r\nContent-Disposition: form-data; name=a; filename=\"\"\r\n\r\n1\r\n--x\r\n"
     "content-disposition: form-data; name=b\r\n\r\n2\r\n--x--epilogue",
     "part(a,)[1]part(b,-)[2]end"},
    // Almost a boundary is content.
    {"--x\r\nContent-Disposition: form-data; "
     "name=a\r\n\r\n\r\n-\r\n--\r\n--y\r\n--xz\r\n--x-\r\r\n--x--",
     "part(a,-)[\r\n-\r\n--\r\n--y\r\n--xz\r\n--x-\r]end"},
    {"--x\r\n\r\nno header\r\n--x--", "part(-,-)[no header]end"},
    {"--x\r\nContent-Type: text/plain\r\n\r\nabc\r\n--x--\r\n", "part(-,-)[abc]end"},
    {"--x--\r\n", "end"},
    {"garbage", "malformed"},
    {"--y\r\n", "malformed"},
    {"--x \r\n", "malformed"},
    {"--x\r\nno colon\r\n\r\n", "malformed"},
    {"--x\r\n: none\r\n\r\n", "malformed"},
    {"--x\r\nsp ace: 1\r\n\r\n", "malformed"},
    {"", "more"},
    {"--x\r\nContent-Disposition: form-data; name=a\r\n\r\ncut", "part(a,-)cut"},
};

TEST(Multipart, TakesBodiesApart) {
  for (const Body& body : bodies)
    EXPECT_EQ(events("x", body.bytes, body.bytes.size() + 1), body.events) << body.bytes;
}

TEST(Multipart, DoesNotDependOnHowTheBodyIsCut) {
  for (const Body& body : bodies)
    for (std::size_t step = 1; step < body.bytes.size(); ++step)
      EXPECT_EQ(events("x", body.bytes, step), body.events)
          << body.bytes << " in steps of " << step;
}

TEST(Multipart, KeepsBackNoMoreThanADelimiter) {
  MultipartParser parser("boundary");
  parser.append("--boundary\r\nContent-Disposition: form-data; name=a\r\n\r\n");
  ASSERT_TRUE(std::holds_alternative<PartBegin>(parser.next()));
  std::size_t given = 0;
  for (int i = 0; i < 1000; ++i) {
    parser.append(std::string(1000, i % 2 == 0 ? '\r' : 'x'));
    for (MultipartEvent event = parser.next(); std::holds_alternative<PartData>(event);
         event = parser.next())
      given += std::get<PartData>(event).bytes.size();
  }
  EXPECT_GT(given, 1'000'000U - 20U);
}

TEST(Multipart, BoundsAPartsHead) {
  MultipartParser parser("x");
  parser.append("--x\r\nA: " + std::string(max_part_head_bytes + 1, 'a'));
  EXPECT_TRUE(std::holds_alternative<MalformedBody>(parser.next()));
}

TEST(FormHeader, ReadsParameters) {
  const FormHeader header = parse_form_header(
      "Form-Data; Name=\"a;b\"; filename=\"C:\\dir\\it's \\\"x\\\".tar\"; x; y=1");
  EXPECT_EQ(header.value, "form-data");
  EXPECT_EQ(header.parameters.at("name"), "a;b");
  EXPECT_EQ(header.parameters.at("y"), "1");
  EXPECT_EQ(parse_form_header("a; filename=\"C:\\dir\\f\"").parameters.at("filename"), "f");
  EXPECT_EQ(parse_form_header("multipart/form-data; boundary=x").parameters.at("boundary"), "x");
  EXPECT_EQ(parse_form_header("").value, "");
}

}  // namespace
}  // namespace daiv::api
