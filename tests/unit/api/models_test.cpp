#include "api/models.hpp"

#include <gtest/gtest.h>

#include "api/json_decode.hpp"

namespace daiv::api {
namespace {

std::string answer(const Schema& schema, std::string_view body) {
  const Json value = *decode_json(body);
  const std::vector<ValidationError> errors = check_schema(schema, value, {"body"});
  return errors.empty() ? "" : validation_answer(errors);
}

bool passes(const Schema& schema, std::string_view body) { return answer(schema, body).empty(); }

TEST(Models, ListsErrorsInTheOrderOfTheModel) {
  EXPECT_EQ(
      answer(start_session_model(), R"({"cpus":"y","memory_bytes":"x","environment":5,"extra":1})"),
      R"({"detail":[)"
      R"({"type":"missing","loc":["body","base_image"],"msg":"Field required","input":)"
      R"({"cpus":"y","memory_bytes":"x","environment":5,"extra":1}},)"
      R"({"type":"dict_type","loc":["body","environment"],"msg":"Input should be a valid dictionary","input":5},)"
      R"({"type":"int_parsing","loc":["body","memory_bytes"],"msg":"Input should be a valid integer, unable to )"
      R"(parse string as an integer","input":"x"},)"
      R"({"type":"float_parsing","loc":["body","cpus"],"msg":"Input should be a valid number, unable to parse )"
      R"(string as a number","input":"y"}]})");
}

TEST(Models, NamesThePlaceOfAnItem) {
  EXPECT_EQ(
      answer(run_model(), R"({"commands":["ls",5,"x"]})"),
      R"({"detail":[{"type":"string_type","loc":["body","commands",1],"msg":"Input should be a valid string",)"
      R"("input":5}]})");
}

TEST(Models, GivesBoundsInTheContext) {
  EXPECT_EQ(
      answer(fs_write_model(), R"({"path":"/x","content":"","mode":4096})"),
      R"({"detail":[{"type":"less_than_equal","loc":["body","mode"],"msg":"Input should be less than or equal )"
      R"(to 4095","input":4096,"ctx":{"le":4095}}]})");
  EXPECT_TRUE(answer(fs_read_model(), R"({"path":"/x","offset":-)" + std::string(300, '9') + "}")
                  .contains(R"("type":"greater_than_equal")"));
}

TEST(Models, RefuseNumbersThatNothingCouldHold) {
  const std::string huge(300, '9');
  EXPECT_FALSE(passes(run_model(), R"({"commands":[],"timeout":)" + huge + "}"));
  EXPECT_FALSE(passes(fs_read_model(), R"({"path":"/x","limit":)" + huge + "}"));
  EXPECT_FALSE(passes(start_session_model(), R"({"base_image":"x","memory_bytes":)" + huge + "}"));
  EXPECT_FALSE(passes(start_session_model(), R"({"base_image":"x","cpus":)" + huge + "}"));
  EXPECT_FALSE(passes(start_session_model(), R"({"base_image":"x","cpus":"nan"})"));
  EXPECT_FALSE(passes(start_session_model(), R"({"base_image":"x","cpus":-0.5})"));
  EXPECT_FALSE(passes(start_session_model(), R"({"base_image":"x","cpus":1e9})"));
  EXPECT_TRUE(
      passes(start_session_model(), R"({"base_image":"x","cpus":0.5,"memory_bytes":null})"));
}

TEST(Models, TakeWholeNumbersBeyond64Bits) {
  for (const std::string& number :
       {std::string("10000000000000000000"), std::string(30, '9'), '"' + std::string(30, '9') + '"',
        '"' + std::string(4300, '9') + '"'}) {
    EXPECT_TRUE(passes(fs_read_model(), R"({"path":"/x","offset":)" + number + "}")) << number;
    EXPECT_TRUE(passes(fs_read_model(), R"({"path":"/x","limit":)" + number + "}")) << number;
    EXPECT_TRUE(passes(run_model(), R"({"commands":[],"timeout":)" + number + "}")) << number;
    EXPECT_TRUE(answer(fs_write_model(), R"({"path":"/x","content":"","mode":)" + number + "}")
                    .contains(R"("type":"less_than_equal")"));
  }
  EXPECT_TRUE(answer(fs_read_model(), R"({"path":"/x","limit":")" + std::string(4301, '9') + "\"}")
                  .contains(R"("type":"int_parsing_size")"));
  EXPECT_TRUE(answer(fs_read_model(), R"({"path":"/x","offset":-)" + std::string(30, '9') + "}")
                  .contains(R"("type":"greater_than_equal")"));
}

TEST(Models, RefuseACommandWithNul) {
  EXPECT_TRUE(answer(run_model(), R"({"commands":["a","b\u0000c"]})")
                  .contains(R"("loc":["body","commands",1])"));
}

TEST(Models, WantAnEgressPolicyThatPermitsSomething) {
  EXPECT_FALSE(passes(egress_model(), "{}"));
  EXPECT_FALSE(passes(egress_model(), R"({"policy":{"default":"deny","rules":[]}})"));
  EXPECT_TRUE(passes(egress_model(), R"({"policy":{"default":"allow"}})"));
  EXPECT_TRUE(
      passes(egress_model(), R"({"policy":{"rules":[{"host":"*.example.org","inject":null}]}})"));
}

TEST(Models, WantInjectedSecretsToExist) {
  EXPECT_TRUE(answer(egress_model(), R"({"policy":{"rules":[{"host":"it's","inject":"t"}]}})")
                  .contains(R"(rule for host \"it's\" references unknown secret 't')"));
  EXPECT_TRUE(passes(egress_model(), R"({"policy":{"rules":[{"host":"h","inject":"t"}]},)"
                                     R"("secrets":{"t":{"header":"X-Token","value":"v"}}})"));
}

// Whatever is wrong around it, a secret's value is never in the answer.
TEST(Models, NeverEchoASecret) {
  for (
      const std::string_view body : {
          R"({"policy":{"default":"allow"},"secrets":{"t":{"header":"X","value":"hush\n"}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":{"value":"hush"}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":{"header":5,"value":["hush"]}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":{"header":"X","value":{"hush":1}}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":"hush"}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":["hush"]}})",
          R"({"policy":{"default":"allow"},"secrets":"hush"})",
          R"({"policy":{"default":"allow"},"secrets":["hush"]})",
          R"({"policy":{"default":"allow"},"secrets":[{"header":"X","value":"hush"}]})",
          R"({"secrets":{"t":{"header":"X","value":"hush"}}})",
          R"({"policy":{"rules":[{"host":"h","inject":"u"}]},"secrets":{"t":{"header":"X","value":"hush"}}})",
      }) {
    const std::string direct = answer(egress_model(), body);
    EXPECT_FALSE(direct.empty()) << body;
    EXPECT_FALSE(direct.contains("hush")) << direct;
    const std::string nested =
        answer(start_session_model(), R"({"egress":)" + std::string(body) + "}");
    EXPECT_TRUE(nested.contains("base_image")) << nested;
    EXPECT_FALSE(nested.contains("hush")) << nested;
  }
}

// Nor is what stands where a secret, or what holds it, should: another shape, another name, or the
// body as a text.
TEST(Models, NeverEchoWhatMayBeASecretAtAnotherPlace) {
  for (
      const std::string_view block : {
          R"([{"value":"hush"}])",
          R"(["hush"])",
          R"("{\"secrets\":{\"t\":{\"header\":\"X\",\"value\":\"hush\"}}}")",
          R"([[{"secrets":{"t":"hush"}}]])",
          R"({"policy":{"default":"allow"},"secrets":[["hush"]]})",
          R"({"secret":{"t":{"header":"X","value":"hush"}}})",
          R"({"value":"hush"})",
          R"({"policy":{"secrets":{"t":{"header":"X","value":"hush"}}}})",
          R"({"policy":"{\"secrets\":\"hush\"}"})",
          R"({"policy":["hush"]})",
          R"({"policy":{"rules":[{"token":"hush"}]}})",
          R"({"policy":{"rules":[{"host":{"value":"hush"}}]}})",
          R"({"policy":{"rules":[{"host":"h","inject":{"header":"X","value":"hush"}}]}})",
          R"({"policy":{"rules":{"value":"hush"}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":{"header":["hush"],"value":"v"}}})",
          R"({"policy":{"default":"allow"},"secrets":{"t":{"header":"X","value":1,"old":"hush"}}})",
      }) {
    const std::string direct = answer(egress_model(), block);
    EXPECT_FALSE(direct.empty()) << block;
    EXPECT_FALSE(direct.contains("hush")) << direct;
    for (const std::string_view name : {"egress", "egres", "secrets"}) {
      const std::string body = R"({")" + std::string(name) + "\":" + std::string(block) + "}";
      for (const std::string& whole : {body, "[" + body + "]"}) {
        const std::string nested = answer(start_session_model(), whole);
        EXPECT_FALSE(nested.empty()) << whole;
        const bool shown =
            name == "egres" && !block.contains("value") && !block.contains("secrets");
        EXPECT_EQ(nested.contains("hush"), shown) << nested;
      }
    }
    EXPECT_FALSE(answer(egress_model(), R"("hush")").contains("hush"));
    for (const Schema* model : {&egress_model(), &start_session_model()}) {
      const Json text = Json::text(R"({"base_image":"x","egress":)" + std::string(block) + "}");
      const std::vector<ValidationError> errors = check_schema(*model, text, {"body"});
      EXPECT_TRUE(validation_answer(errors).contains(R"("input":"**********")"));
    }
  }
}

// What holds no secret is echoed as it came, as the Docker variant does it.
TEST(Models, EchoWhatIsNoSecret) {
  const std::vector<std::pair<const Schema*, std::string>> bodies{
      {&start_session_model(), R"("x")"},
      {&start_session_model(), R"([{"base_image":"x"}])"},
      {&start_session_model(), R"({"image":"x","environment":{"A":"b"},"extra":["c"]})"},
      {&start_session_model(), R"({"egress":{"policy":{"default":"x"}}})"},
      {&start_session_model(), R"({"egress":"yes"})"},
      {&egress_model(), R"({"policy":{"rules":[{"host":"x","inject":"token"}]}})"},
      {&egress_model(), R"({"policy":{"rules":[]}})"},
      {&run_model(), R"({"secrets":{"value":"x"}})"},
  };
  for (const auto& [model, body] : bodies)
    EXPECT_TRUE(answer(*model, body).contains(R"("input":)" + body)) << answer(*model, body);
  EXPECT_TRUE(answer(egress_model(), R"({"policy":{"rules":[{"host":"x","methods":"GET"}]}})")
                  .contains(R"("input":"GET")"));
}

TEST(Models, BoundTheAnswer) {
  std::string body = R"({"commands":[0)";
  for (int i = 0; i < 100'000; ++i) body += ",0";
  EXPECT_LT(answer(run_model(), body + "]}").size(), 200'000U);
  const std::string large = R"({"base_image":[")" + std::string(2U << 20, 'x') + R"("]})";
  EXPECT_TRUE(answer(start_session_model(), large).contains("\"input\":\"(2097156 bytes)\""));
}

}  // namespace
}  // namespace daiv::api
