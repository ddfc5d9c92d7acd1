#include "api/fs_json.hpp"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "api/base64.hpp"
#include "api/coercion.hpp"
#include "api/json_write.hpp"
#include "api/utf8.hpp"

namespace daiv::api {
namespace {

namespace fs = sessions::fs;

std::string take_text(Json& body, std::string_view name) {
  return std::move(*body.find(name)->string());
}

std::uint64_t count_of(const Json& body, std::string_view name, std::uint64_t fallback) {
  const Json* value = body.find(name);
  return value == nullptr ? fallback : static_cast<std::uint64_t>(*to_integer(*value));
}

std::vector<std::string> take_texts(Json& body, std::string_view name) {
  std::vector<std::string> texts;
  Json* list = body.find(name);
  if (list == nullptr) return texts;
  for (Json& item : *list->array()) texts.push_back(std::move(*item.string()));
  return texts;
}

fs::FsRequest grep_request(Json& body) {
  fs::GrepRequest request;
  request.path = take_text(body, "path");
  request.pattern = take_text(body, "pattern");
  Json* glob = body.find("glob");
  if (glob != nullptr && !glob->is_null()) request.glob = std::move(*glob->string());
  request.exclude = take_texts(body, "exclude");
  return request;
}

fs::FsRequest write_request(Json& body) {
  fs::WriteRequest request;
  request.path = take_text(body, "path");
  request.content = *decode_base64(take_text(body, "content"));
  request.mode = static_cast<std::uint32_t>(count_of(body, "mode", request.mode));
  return request;
}

fs::FsRequest edit_request(Json& body) {
  fs::EditRequest request;
  request.path = take_text(body, "path");
  request.old_text = take_text(body, "old");
  request.new_text = take_text(body, "new");
  const Json* all = body.find("replace_all");
  if (all != nullptr && *to_boolean(*all)) request.replace = fs::Replace::all;
  return request;
}

// ---- answers, each field in the order of the response model ----

class ObjectText {
public:
  explicit ObjectText(std::string& out) : out_(out) { out_ += '{'; }
  void close() { out_ += '}'; }

  std::string& name(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    append_json_string(out_, name);
    out_ += ':';
    return out_;
  }
  void text(std::string_view field, std::string_view value) {
    append_json_string(name(field), replace_invalid_utf8(value));
  }
  void boolean(std::string_view field, bool value) { name(field) += value ? "true" : "false"; }
  void number(std::string_view field, const std::optional<std::uint64_t>& value) {
    name(field) += value ? std::to_string(*value) : "null";
  }
  void error(const std::optional<fs::FsError>& error) {
    std::string& out = name("error");
    if (!error) {
      out += "null";
      return;
    }
    ObjectText object(out);
    object.text("code", fs::to_string(error->code));
    object.text("message", error->message);
    object.close();
  }

private:
  std::string& out_;
  bool first_ = true;
};

void append_entries(std::string& out, const std::vector<fs::FsEntry>& entries) {
  out += '[';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i != 0) out += ',';
    ObjectText object(out);
    object.text("path", entries[i].path);
    object.boolean("is_dir", entries[i].is_dir);
    object.close();
  }
  out += ']';
}

void append_matches(std::string& out, const std::vector<fs::GrepMatch>& matches) {
  out += '[';
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (i != 0) out += ',';
    ObjectText object(out);
    object.text("path", matches[i].path);
    object.number("line", matches[i].line);
    object.text("text", matches[i].text);
    object.close();
  }
  out += ']';
}

void fill(ObjectText& object, const fs::LsReply& reply) {
  append_entries(object.name("entries"), reply.entries);
  object.error(reply.error);
}

void fill(ObjectText& object, const fs::ReadReply& reply) {
  if (reply.error) {
    object.name("content") += "null";
    object.name("encoding") += "null";
  } else if (reply.encoding == fs::FsEncoding::base64) {
    object.text("content", encode_base64(reply.content));
    object.text("encoding", "base64");
  } else {
    object.text("content", reply.content);
    object.text("encoding", "utf-8");
  }
  object.number("total_lines", reply.total_lines);
  object.number("end_line", reply.end_line);
  object.boolean("truncated", reply.truncated);
  object.error(reply.error);
}

void fill(ObjectText& object, const fs::GrepReply& reply) {
  append_matches(object.name("matches"), reply.matches);
  object.boolean("truncated", reply.truncated);
  object.error(reply.error);
}

void fill(ObjectText& object, const fs::GlobReply& reply) {
  append_entries(object.name("matches"), reply.matches);
  object.error(reply.error);
}

void fill(ObjectText& object, const fs::WriteReply& reply) {
  object.error(reply.error);
  object.boolean("ok", !reply.error);
}

void fill(ObjectText& object, const fs::EditReply& reply) {
  object.number("occurrences", reply.occurrences);
  object.error(reply.error);
}

void fill(ObjectText& object, const fs::DeleteReply& reply) {
  object.boolean("removed", reply.removed);
  object.error(reply.error);
  object.boolean("ok", !reply.error);
}

template <typename Reply>
fs::FsReply failed(fs::FsError error) {
  Reply reply;
  reply.error = std::move(error);
  return reply;
}

}  // namespace

fs::FsRequest fs_request(RouteId route, Json& body) {
  if (route == RouteId::fs_grep) return grep_request(body);
  if (route == RouteId::fs_write) return write_request(body);
  if (route == RouteId::fs_edit) return edit_request(body);
  std::string path = take_text(body, "path");
  if (route == RouteId::fs_read)
    return fs::ReadRequest{path, count_of(body, "offset", 0), count_of(body, "limit", 2000)};
  if (route == RouteId::fs_glob)
    return fs::GlobRequest{path, take_text(body, "pattern"), take_texts(body, "exclude")};
  if (route == RouteId::fs_delete) return fs::DeleteRequest{path};
  return fs::LsRequest{path};
}

// The alternatives of FsRequest and FsReply stand in the order of FsOperation, which counts from 1.
fs::FsOperation fs_operation(const fs::FsRequest& request) {
  return static_cast<fs::FsOperation>(request.index() + 1);
}

std::optional<fs::FsError> check_request_path(const fs::FsRequest& request) {
  const std::string& path = std::visit(
      [](const auto& operation) -> const std::string& { return operation.path; }, request);
  return fs::check_fs_path(path, fs::fs_target(fs_operation(request)));
}

fs::FsReply failed_reply(fs::FsOperation operation, fs::FsError error) {
  switch (operation) {
    case fs::FsOperation::ls:
      return failed<fs::LsReply>(std::move(error));
    case fs::FsOperation::read:
      return failed<fs::ReadReply>(std::move(error));
    case fs::FsOperation::grep:
      return failed<fs::GrepReply>(std::move(error));
    case fs::FsOperation::glob:
      return failed<fs::GlobReply>(std::move(error));
    case fs::FsOperation::write:
      return failed<fs::WriteReply>(std::move(error));
    case fs::FsOperation::edit:
      return failed<fs::EditReply>(std::move(error));
    case fs::FsOperation::remove:
      return failed<fs::DeleteReply>(std::move(error));
  }
  return failed<fs::LsReply>(std::move(error));
}

std::string fs_reply_json(const fs::FsReply& reply) {
  std::string out;
  ObjectText object(out);
  std::visit([&object](const auto& alternative) { fill(object, alternative); }, reply);
  object.close();
  return out;
}

}  // namespace daiv::api
