#include "agent/protocol.hpp"

#include <stdexcept>

namespace daiv::agent {
namespace {

using wire::DecodeError;
using wire::Reader;
using wire::Writer;

constexpr std::uint32_t max_config_texts = 65536;

template <typename Enum>
Enum read_enum(Reader& reader, Enum highest) {
  const auto value = reader.u8();
  if (value > static_cast<std::uint8_t>(highest)) throw DecodeError("value out of range");
  return static_cast<Enum>(value);
}

std::chrono::milliseconds read_duration(Reader& reader) {
  const auto value = reader.i64();
  if (value < 0) throw DecodeError("negative duration");
  return std::chrono::milliseconds(value);
}

std::string read_text_without_nul(Reader& reader) {
  const auto text = reader.text();
  if (text.find('\0') != std::string_view::npos) throw DecodeError("text holds a NUL");
  return std::string(text);
}

// The hash becomes a file's name.
bool is_hash_name(std::string_view text) {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Trust read_trust(Reader& reader) {
  Trust trust;
  trust.certificate = std::string(reader.text());
  trust.hash_name = std::string(reader.text());
  trust.der = std::string(reader.text());
  trust.public_roots = reader.text();
  if (!trust.certificate.empty() && !is_hash_name(trust.hash_name))
    throw DecodeError("hash of a certificate");
  return trust;
}

template <typename Enum>
std::uint8_t byte_of(Enum value) {
  return static_cast<std::uint8_t>(value);
}

}  // namespace

std::string Config::encode() const {
  return Writer()
      .u32(run_uid)
      .u32(run_gid)
      .u8(byte_of(privilege_gain))
      .u32(max_processes)
      .texts(environment)
      .texts(prune_dirs)
      .text(trust.certificate)
      .text(trust.hash_name)
      .text(trust.der)
      .text(trust.public_roots)
      .take();
}

Config Config::decode(std::string_view bytes) {
  Reader reader(bytes);
  Config config;
  config.run_uid = reader.u32();
  config.run_gid = reader.u32();
  config.privilege_gain = read_enum(reader, PrivilegeGain::setuid_only);
  config.max_processes = reader.u32();
  config.environment = reader.texts(max_config_texts);
  config.prune_dirs = reader.texts(max_config_texts);
  config.trust = read_trust(reader);
  reader.finish();
  for (const auto& variable : config.environment)
    if (variable.find('\0') != std::string::npos) throw DecodeError("environment holds a NUL");
  return config;
}

std::string ExecRequest::encode() const {
  return Writer().i64(timeout.count()).u64(max_output_bytes).text(command).take();
}

ExecRequest ExecRequest::decode(std::string_view payload) {
  Reader reader(payload);
  ExecRequest request;
  request.timeout = read_duration(reader);
  request.max_output_bytes = reader.u64();
  request.command = read_text_without_nul(reader);
  reader.finish();
  return request;
}

std::string SeedRequest::encode() const {
  return Writer().u64(max_unpacked_bytes).u64(max_entries).take();
}

SeedRequest SeedRequest::decode(std::string_view payload) {
  Reader reader(payload);
  SeedRequest request;
  request.max_unpacked_bytes = reader.u64();
  request.max_entries = reader.u64();
  reader.finish();
  return request;
}

std::string SeedData::encode() const {
  return Writer().u8(byte_of(target)).boolean(last).text(bytes).take();
}

SeedData SeedData::decode(std::string_view payload) {
  Reader reader(payload);
  SeedData data;
  data.target = read_enum(reader, SeedTarget::skills);
  data.last = reader.boolean();
  data.bytes = reader.text();
  reader.finish();
  return data;
}

std::string TerminateRequest::encode() const { return Writer().i64(grace.count()).take(); }

TerminateRequest TerminateRequest::decode(std::string_view payload) {
  Reader reader(payload);
  TerminateRequest request;
  request.grace = read_duration(reader);
  reader.finish();
  return request;
}

std::string ExecDone::encode() const {
  return Writer()
      .u8(byte_of(outcome))
      .u32(static_cast<std::uint32_t>(code))
      .u64(output_bytes)
      .text(message)
      .take();
}

ExecDone ExecDone::decode(std::string_view payload) {
  Reader reader(payload);
  ExecDone done;
  done.outcome = read_enum(reader, ExecOutcome::out_of_memory);
  done.code = static_cast<std::int32_t>(reader.u32());
  if (done.code < 0 || done.code > 255) throw DecodeError("exit status out of range");
  done.output_bytes = reader.u64();
  done.message = reader.text();
  reader.finish();
  return done;
}

std::string SeedDone::encode() const {
  return Writer().u8(byte_of(outcome)).u8(byte_of(target)).text(message).take();
}

SeedDone SeedDone::decode(std::string_view payload) {
  Reader reader(payload);
  SeedDone done;
  done.outcome = read_enum(reader, SeedOutcome::failed);
  done.target = read_enum(reader, SeedTarget::skills);
  done.message = reader.text();
  reader.finish();
  return done;
}

std::string Status::encode() const {
  return Writer().text(shell).boolean(pipefail).u32(processes).take();
}

Status Status::decode(std::string_view payload) {
  Reader reader(payload);
  Status status;
  status.shell = reader.text();
  status.pipefail = reader.boolean();
  status.processes = reader.u32();
  reader.finish();
  return status;
}

std::string Failed::encode() const { return Writer().text(message).take(); }

Failed Failed::decode(std::string_view payload) {
  Reader reader(payload);
  Failed failed;
  failed.message = reader.text();
  reader.finish();
  return failed;
}

std::string make_frame(std::uint8_t type, std::string_view payload) {
  if (payload.size() > max_request_bytes) throw std::length_error("frame is too long");
  Writer writer;
  writer.u32(static_cast<std::uint32_t>(payload.size())).u8(type);
  std::string frame = writer.take();
  frame.append(payload);
  return frame;
}

FrameHeader parse_frame_header(std::string_view bytes, std::size_t max_bytes) {
  Reader reader(bytes);
  FrameHeader header;
  header.length = reader.u32();
  header.type = reader.u8();
  reader.finish();
  if (header.length > max_bytes) throw DecodeError("frame is too long");
  return header;
}

}  // namespace daiv::agent
