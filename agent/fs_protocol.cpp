#include "agent/fs_protocol.hpp"

#include <array>
#include <type_traits>
#include <utility>

#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

constexpr std::array<std::string_view, 14> code_names = {
    "",
    "invalid_path",
    "not_found",
    "not_a_directory",
    "is_a_directory",
    "not_a_text_file",
    "string_not_found",
    "multiple_occurrences",
    "already_exists",
    "too_large",
    "invalid_offset",
    "permission_denied",
    "exec_failed",
    "invalid_pattern",
};

std::uint8_t tag(FsOperation operation) { return static_cast<std::uint8_t>(operation); }

FsOperation read_operation(wire::Reader& reader) {
  const std::uint8_t value = reader.u8();
  if (value < tag(FsOperation::ls) || value > tag(FsOperation::remove)) {
    throw wire::DecodeError("fs: unknown operation");
  }
  return static_cast<FsOperation>(value);
}

std::string text(wire::Reader& reader) { return std::string(reader.text()); }

void put(wire::Writer& out, const std::optional<FsError>& error) {
  out.boolean(error.has_value());
  if (error) out.u8(static_cast<std::uint8_t>(error->code)).text(error->message);
}

std::optional<FsError> take_error(wire::Reader& reader) {
  if (!reader.boolean()) return std::nullopt;
  const std::uint8_t code = reader.u8();
  if (code == 0 || code >= code_names.size()) throw wire::DecodeError("fs: unknown error code");
  FsError error{static_cast<FsErrorCode>(code), text(reader)};
  if (error.message.empty()) throw wire::DecodeError("fs: empty error message");
  return error;
}

void put(wire::Writer& out, const std::optional<std::uint64_t>& value) {
  out.boolean(value.has_value());
  if (value) out.u64(*value);
}

std::optional<std::uint64_t> take_number(wire::Reader& reader) {
  if (!reader.boolean()) return std::nullopt;
  return reader.u64();
}

void put(wire::Writer& out, const std::vector<FsEntry>& entries) {
  out.u32(static_cast<std::uint32_t>(entries.size()));
  for (const FsEntry& entry : entries) out.text(entry.path).boolean(entry.is_dir);
}

std::vector<FsEntry> take_entries(wire::Reader& reader) {
  std::vector<FsEntry> entries;
  // The count is not trusted with a reservation: each entry has to be there first.
  for (std::uint32_t left = reader.u32(); left > 0; --left) {
    std::string path = text(reader);
    entries.push_back({std::move(path), reader.boolean()});
  }
  return entries;
}

// ---- requests

void put(wire::Writer& out, const LsRequest& r) { out.u8(tag(FsOperation::ls)).text(r.path); }
void put(wire::Writer& out, const ReadRequest& r) {
  out.u8(tag(FsOperation::read)).text(r.path).u64(r.offset).u64(r.limit);
}
void put(wire::Writer& out, const GrepRequest& r) {
  out.u8(tag(FsOperation::grep)).text(r.path).text(r.pattern).boolean(r.glob.has_value());
  if (r.glob) out.text(*r.glob);
  out.texts(r.exclude);
}
void put(wire::Writer& out, const GlobRequest& r) {
  out.u8(tag(FsOperation::glob)).text(r.path).text(r.pattern).texts(r.exclude);
}
void put(wire::Writer& out, const WriteRequest& r) {
  out.u8(tag(FsOperation::write)).text(r.path).text(r.content).u32(r.mode);
}
void put(wire::Writer& out, const EditRequest& r) {
  out.u8(tag(FsOperation::edit)).text(r.path).text(r.old_text).text(r.new_text);
  out.boolean(r.replace == Replace::all);
}
void put(wire::Writer& out, const DeleteRequest& r) {
  out.u8(tag(FsOperation::remove)).text(r.path);
}

ReadRequest take_read(wire::Reader& reader) {
  ReadRequest request;
  request.path = text(reader);
  request.offset = reader.u64();
  request.limit = reader.u64();
  if (request.limit == 0) throw wire::DecodeError("fs: limit of 0 lines");
  return request;
}

GrepRequest take_grep(wire::Reader& reader) {
  GrepRequest request;
  request.path = text(reader);
  request.pattern = text(reader);
  if (reader.boolean()) request.glob = text(reader);
  request.exclude = reader.texts(max_fs_excludes);
  return request;
}

GlobRequest take_glob(wire::Reader& reader) {
  GlobRequest request;
  request.path = text(reader);
  request.pattern = text(reader);
  request.exclude = reader.texts(max_fs_excludes);
  return request;
}

WriteRequest take_write(wire::Reader& reader) {
  WriteRequest request;
  request.path = text(reader);
  request.content = text(reader);
  request.mode = reader.u32();
  if (request.mode > 07777) throw wire::DecodeError("fs: mode above 07777");
  return request;
}

EditRequest take_edit(wire::Reader& reader) {
  EditRequest request;
  request.path = text(reader);
  request.old_text = text(reader);
  request.new_text = text(reader);
  request.replace = reader.boolean() ? Replace::all : Replace::only_one;
  return request;
}

FsRequest take_request(wire::Reader& reader) {
  switch (read_operation(reader)) {
    case FsOperation::ls:
      return LsRequest{text(reader)};
    case FsOperation::read:
      return take_read(reader);
    case FsOperation::grep:
      return take_grep(reader);
    case FsOperation::glob:
      return take_glob(reader);
    case FsOperation::write:
      return take_write(reader);
    case FsOperation::edit:
      return take_edit(reader);
    case FsOperation::remove:
      return DeleteRequest{text(reader)};
  }
  throw wire::DecodeError("fs: unknown operation");
}

// ---- answers

void put(wire::Writer& out, const LsReply& r) {
  out.u8(tag(FsOperation::ls));
  put(out, r.entries);
  put(out, r.error);
}
void put(wire::Writer& out, const ReadReply& r) {
  out.u8(tag(FsOperation::read)).text(r.content).boolean(r.encoding == FsEncoding::base64);
  put(out, r.total_lines);
  put(out, r.end_line);
  out.boolean(r.truncated);
  put(out, r.error);
}
void put(wire::Writer& out, const GrepReply& r) {
  out.u8(tag(FsOperation::grep)).u32(static_cast<std::uint32_t>(r.matches.size()));
  for (const GrepMatch& match : r.matches) out.text(match.path).u64(match.line).text(match.text);
  out.boolean(r.truncated);
  put(out, r.error);
}
void put(wire::Writer& out, const GlobReply& r) {
  out.u8(tag(FsOperation::glob));
  put(out, r.matches);
  put(out, r.error);
}
void put(wire::Writer& out, const WriteReply& r) {
  out.u8(tag(FsOperation::write));
  put(out, r.error);
}
void put(wire::Writer& out, const EditReply& r) {
  out.u8(tag(FsOperation::edit));
  put(out, r.occurrences);
  put(out, r.error);
}
void put(wire::Writer& out, const DeleteReply& r) {
  out.u8(tag(FsOperation::remove)).boolean(r.removed);
  put(out, r.error);
}

LsReply take_ls_reply(wire::Reader& reader) {
  LsReply reply;
  reply.entries = take_entries(reader);
  reply.error = take_error(reader);
  return reply;
}

ReadReply take_read_reply(wire::Reader& reader) {
  ReadReply reply;
  reply.content = text(reader);
  if (reply.content.size() > max_read_bytes) throw wire::DecodeError("fs: content above the cap");
  reply.encoding = reader.boolean() ? FsEncoding::base64 : FsEncoding::utf8;
  reply.total_lines = take_number(reader);
  reply.end_line = take_number(reader);
  reply.truncated = reader.boolean();
  reply.error = take_error(reader);
  return reply;
}

GrepReply take_grep_reply(wire::Reader& reader) {
  GrepReply reply;
  const std::uint32_t count = reader.u32();
  if (count > max_grep_matches) throw wire::DecodeError("fs: too many matches");
  for (std::uint32_t i = 0; i < count; ++i) {
    GrepMatch match;
    match.path = text(reader);
    match.line = reader.u64();
    match.text = text(reader);
    reply.matches.push_back(std::move(match));
  }
  reply.truncated = reader.boolean();
  reply.error = take_error(reader);
  return reply;
}

GlobReply take_glob_reply(wire::Reader& reader) {
  GlobReply reply;
  reply.matches = take_entries(reader);
  reply.error = take_error(reader);
  return reply;
}

EditReply take_edit_reply(wire::Reader& reader) {
  EditReply reply;
  reply.occurrences = take_number(reader);
  reply.error = take_error(reader);
  return reply;
}

DeleteReply take_delete_reply(wire::Reader& reader) {
  DeleteReply reply;
  reply.removed = reader.boolean();
  reply.error = take_error(reader);
  return reply;
}

FsReply take_reply(wire::Reader& reader) {
  switch (read_operation(reader)) {
    case FsOperation::ls:
      return take_ls_reply(reader);
    case FsOperation::read:
      return take_read_reply(reader);
    case FsOperation::grep:
      return take_grep_reply(reader);
    case FsOperation::glob:
      return take_glob_reply(reader);
    case FsOperation::write:
      return WriteReply{take_error(reader)};
    case FsOperation::edit:
      return take_edit_reply(reader);
    case FsOperation::remove:
      return take_delete_reply(reader);
  }
  throw wire::DecodeError("fs: unknown operation");
}

template <typename Variant>
std::string encode(const Variant& message) {
  wire::Writer out;
  std::visit([&](const auto& alternative) { put(out, alternative); }, message);
  return out.take();
}

}  // namespace

std::string_view to_string(FsErrorCode code) {
  return code_names.at(static_cast<std::size_t>(code));
}

std::string encode_fs_request(const FsRequest& request) { return encode(request); }

FsRequest decode_fs_request(std::string_view payload) {
  wire::Reader reader(payload);
  FsRequest request = take_request(reader);
  reader.finish();
  return request;
}

std::string encode_fs_reply(const FsReply& reply) { return encode(reply); }

FsReply decode_fs_reply(std::string_view payload) {
  wire::Reader reader(payload);
  FsReply reply = take_reply(reader);
  reader.finish();
  return reply;
}

}  // namespace daiv::agent
