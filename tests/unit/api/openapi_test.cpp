#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "api/assets.hpp"
#include "api/json_decode.hpp"
#include "api/models.hpp"
#include "api/router.hpp"

namespace daiv::api {
namespace {

const Json& document() {
  static const Json json = *decode_json(openapi_document);
  return json;
}

// The first alternative of what may also be null.
const Json& plain(const Json& schema) {
  const Json* choices = schema.find("anyOf");
  return choices == nullptr ? schema : choices->array()->front();
}

std::string type_of(const Schema& schema) {
  switch (schema.kind) {
    case SchemaKind::text:
    case SchemaKind::secret:
    case SchemaKind::base64:
    case SchemaKind::choice:
      return "string";
    case SchemaKind::integer:
      return "integer";
    case SchemaKind::number:
      return "number";
    case SchemaKind::boolean:
      return "boolean";
    case SchemaKind::list:
      return "array";
    case SchemaKind::dictionary:
    case SchemaKind::model:
      return "object";
  }
  return "";
}

void expect_described(const Schema& schema, const Json& description, const std::string& place) {
  const Json* reference = description.find("$ref");
  if (reference != nullptr) {
    const std::string name = "#/components/schemas/" + std::string(schema.name);
    EXPECT_EQ(*reference->string(), name) << place;
    return;
  }
  EXPECT_EQ(*description.find("type")->string(), type_of(schema)) << place;
  if (schema.kind == SchemaKind::list)
    expect_described(*schema.item, *description.find("items"), place);
  if (schema.kind == SchemaKind::dictionary)
    expect_described(*schema.item, *description.find("additionalProperties"), place);
}

// The document says of each model what the server checks.
TEST(OpenApi, DescribesTheModels) {
  const Json& schemas = *document().find("components")->find("schemas");
  for (const Schema* model : {&start_session_model(), &egress_model(), &run_model(), &fs_ls_model(),
                              &fs_read_model(), &fs_grep_model(), &fs_glob_model(),
                              &fs_write_model(), &fs_edit_model(), &fs_delete_model()}) {
    const Json* description = schemas.find(model->name);
    ASSERT_NE(description, nullptr) << model->name;
    std::set<std::string> required;
    if (const Json* list = description->find("required"))
      for (const Json& name : *list->array()) required.insert(*name.string());
    const Json& properties = *description->find("properties");
    EXPECT_EQ(properties.object()->size(), model->fields.size()) << model->name;
    for (const SchemaField& field : model->fields) {
      const std::string place = std::string(model->name) + "." + std::string(field.name);
      const Json* property = properties.find(field.name);
      ASSERT_NE(property, nullptr) << place;
      EXPECT_EQ(required.contains(std::string(field.name)), field.required) << place;
      EXPECT_EQ(property->find("anyOf") != nullptr, field.schema.nullable) << place;
      expect_described(field.schema, plain(*property), place);
    }
  }
}

TEST(OpenApi, ListsTheRoutes) {
  const Json& paths = *document().find("paths");
  std::size_t described = 0;
  for (const JsonMember& path : *paths.object()) described += path.value.object()->size();
  std::size_t served = 0;
  for (const Route& route : routes()) {
    const bool documentation =
        route.id == RouteId::openapi || route.id == RouteId::docs || route.id == RouteId::metrics;
    if (documentation) continue;
    ++served;
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const Json* path = paths.find(route.path);
    ASSERT_NE(path, nullptr) << route.path;
    EXPECT_NE(path->find(method), nullptr) << route.path << " " << method;
  }
  EXPECT_EQ(described, served);
}

}  // namespace
}  // namespace daiv::api
