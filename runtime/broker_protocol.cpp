#include "runtime/broker_protocol.hpp"

#include <cstddef>
#include <utility>

#include "runtime/names.hpp"

namespace daiv::runtime {
namespace {

constexpr std::uint32_t max_listed = 100'000;
constexpr std::size_t max_server_bytes = 1024;
constexpr std::size_t max_credential_bytes = 16U << 10;
constexpr std::uint32_t max_checks = 256;

void require(bool holds, const char* what) {
  if (!holds) throw wire::DecodeError(what);
}

std::string read_session(wire::Reader& reader) {
  std::string session(reader.text());
  require(is_session_id(session), "session id");
  return session;
}

std::vector<std::string> read_layers(wire::Reader& reader, std::uint32_t max_count) {
  auto layers = reader.texts(max_count);
  for (const std::string& layer : layers) require(is_layer_name(layer), "layer name");
  return layers;
}

// ---- requests: one write and one read_ function each, in the order of the variant ----

constexpr std::uint32_t max_port = 65535;

std::uint16_t read_port(wire::Reader& in) {
  const std::uint32_t port = in.u32();
  require(port <= max_port, "port");
  return static_cast<std::uint16_t>(port);
}

void write(wire::Writer& out, const EgressLink& link) {
  out.u32(link.proxy).u32(link.sandbox).u32(link.port).boolean(link.transparent);
}

EgressLink read_link(wire::Reader& in) {
  EgressLink link;
  link.proxy = in.u32();
  link.sandbox = in.u32();
  link.port = read_port(in);
  link.transparent = in.boolean();
  require(link.proxy != 0 && link.sandbox != 0 && link.proxy != link.sandbox, "addresses");
  require(link.port != 0, "port");
  return link;
}

void write(wire::Writer& out, const CreateSandbox& request) {
  out.text(request.session).u32(request.uid_base).texts(request.layers);
  out.u32(request.run_uid).u32(request.run_gid).text(request.hostname);
  out.u64(request.limits.memory_bytes).u64(request.limits.cpu_millis).u64(request.limits.pids);
  out.boolean(request.no_new_privs).boolean(request.egress.has_value());
  if (request.egress) write(out, *request.egress);
}
void write(wire::Writer& out, const KillSandbox& request) { out.text(request.session); }
void write(wire::Writer& out, const RemoveSandbox& request) { out.text(request.session); }
void write(wire::Writer&, const ListSandboxes&) {}
void write(wire::Writer& out, const AdoptSandbox& request) {
  out.text(request.session).u32(request.egress_port).boolean(request.transparent);
}
void write(wire::Writer& out, const UnpackLayer& request) {
  out.text(request.layer).text(request.expected_diff_id);
  out.u64(request.max_unpacked_bytes).u64(request.max_entries).texts(request.parents);
  out.boolean(request.above_others);
}
void write(wire::Writer& out, const RemoveLayers& request) { out.texts(request.layers); }
void write(wire::Writer&, const ListLayers&) {}
void write(wire::Writer& out, const RunCredentialHelper& request) {
  out.text(request.helper).text(request.server);
}
void write(wire::Writer&, const ProbeHost&) {}
void write(wire::Writer& out, const OpenUpstreamSockets& request) {
  out.u8(static_cast<std::uint8_t>(request.family)).u8(static_cast<std::uint8_t>(request.type));
}

CreateSandbox read_create(wire::Reader& in) {
  CreateSandbox request;
  request.session = read_session(in);
  request.uid_base = in.u32();
  // One more than the limit passes, so that 501 layers get a sentence and not "malformed".
  request.layers = read_layers(in, 2 * max_layers);
  request.run_uid = in.u32();
  request.run_gid = in.u32();
  request.hostname = std::string(in.text());
  require(is_hostname(request.hostname), "hostname");
  request.limits.memory_bytes = in.u64();
  request.limits.cpu_millis = in.u64();
  request.limits.pids = in.u64();
  request.no_new_privs = in.boolean();
  if (in.boolean()) request.egress = read_link(in);
  return request;
}

AdoptSandbox read_adopt(wire::Reader& in) {
  AdoptSandbox request;
  request.session = read_session(in);
  request.egress_port = read_port(in);
  request.transparent = in.boolean();
  return request;
}

UnpackLayer read_unpack(wire::Reader& in) {
  UnpackLayer request;
  request.layer = std::string(in.text());
  require(is_layer_name(request.layer), "layer name");
  request.expected_diff_id = std::string(in.text());
  require(request.expected_diff_id.empty() || is_diff_id(request.expected_diff_id), "diff id");
  request.max_unpacked_bytes = in.u64();
  request.max_entries = in.u64();
  request.parents = read_layers(in, max_layers);
  request.above_others = in.boolean();
  return request;
}

RunCredentialHelper read_helper(wire::Reader& in) {
  RunCredentialHelper request;
  request.helper = std::string(in.text());
  require(is_helper_name(request.helper), "helper name");
  request.server = std::string(in.text());
  require(!request.server.empty() && request.server.size() <= max_server_bytes, "server");
  // It goes as one line into the helper's standard input.
  require(request.server.find_first_of(std::string_view("\n\r\0", 3)) == std::string::npos,
          "server");
  return request;
}

OpenUpstreamSockets read_open_upstream(wire::Reader& in) {
  using Request = OpenUpstreamSockets;
  const std::uint8_t family = in.u8();
  const std::uint8_t type = in.u8();
  require(family <= static_cast<std::uint8_t>(Request::Family::inet6), "family");
  require(type <= static_cast<std::uint8_t>(Request::Type::datagram), "type");
  return {static_cast<Request::Family>(family), static_cast<Request::Type>(type)};
}

enum class RequestTag : std::uint8_t {
  create,
  kill,
  remove,
  list,
  adopt,
  unpack,
  remove_layers,
  list_layers,
  credential,
  probe,
  open_upstream
};

Request read_request(RequestTag tag, wire::Reader& in) {
  switch (tag) {
    case RequestTag::create:
      return read_create(in);
    case RequestTag::kill:
      return KillSandbox{read_session(in)};
    case RequestTag::remove:
      return RemoveSandbox{read_session(in)};
    case RequestTag::list:
      return ListSandboxes{};
    case RequestTag::adopt:
      return read_adopt(in);
    case RequestTag::unpack:
      return read_unpack(in);
    case RequestTag::remove_layers:
      return RemoveLayers{read_layers(in, max_listed)};
    case RequestTag::list_layers:
      return ListLayers{};
    case RequestTag::credential:
      return read_helper(in);
    case RequestTag::probe:
      return ProbeHost{};
    case RequestTag::open_upstream:
      return read_open_upstream(in);
  }
  throw wire::DecodeError("request type");
}

// ---- answers ----

void write(wire::Writer& out, const Failed& answer) {
  out.u8(static_cast<std::uint8_t>(answer.kind)).text(answer.message);
}
void write(wire::Writer&, const Done&) {}
void write(wire::Writer& out, const Created& answer) { out.u32(answer.pid).u64(answer.start_time); }
void write(wire::Writer& out, const Inventory& answer) {
  out.u32(static_cast<std::uint32_t>(answer.sandboxes.size()));
  for (const SandboxEntry& entry : answer.sandboxes)
    out.text(entry.session).boolean(entry.running).boolean(entry.has_writable_layer);
}
void write(wire::Writer& out, const Unpacked& answer) {
  out.text(answer.diff_id).u64(answer.unpacked_bytes).u64(answer.entries);
  out.boolean(answer.hides_below).boolean(answer.needs_parents);
}
void write(wire::Writer& out, const Layers& answer) { out.texts(answer.layers); }
void write(wire::Writer& out, const Credential& answer) { out.text(answer.output); }
void write(wire::Writer& out, const HostReport& answer) { out.texts(answer.checks); }
void write(wire::Writer& out, const UpstreamSockets& answer) {
  out.u64(answer.network.inode).u64(answer.network.since_ns);
}

Failed read_failed(wire::Reader& in) {
  const std::uint8_t kind = in.u8();
  require(kind <= static_cast<std::uint8_t>(Failure::range_taken), "failure kind");
  return {static_cast<Failure>(kind), std::string(in.text())};
}

Created read_created(wire::Reader& in) {
  Created answer;
  answer.pid = in.u32();
  answer.start_time = in.u64();
  return answer;
}

Inventory read_inventory(wire::Reader& in) {
  Inventory answer;
  const std::uint32_t count = in.u32();
  require(count <= max_listed, "number of sandboxes");
  for (std::uint32_t index = 0; index < count; ++index) {
    SandboxEntry entry;
    entry.session = read_session(in);
    entry.running = in.boolean();
    entry.has_writable_layer = in.boolean();
    answer.sandboxes.push_back(std::move(entry));
  }
  return answer;
}

Unpacked read_unpacked(wire::Reader& in) {
  Unpacked answer;
  answer.diff_id = std::string(in.text());
  require(is_diff_id(answer.diff_id), "diff id");
  answer.unpacked_bytes = in.u64();
  answer.entries = in.u64();
  answer.hides_below = in.boolean();
  answer.needs_parents = in.boolean();
  return answer;
}

Credential read_credential(wire::Reader& in) {
  Credential answer{std::string(in.text())};
  require(answer.output.size() <= max_credential_bytes, "length of the credential");
  return answer;
}

HostReport read_report(wire::Reader& in) {
  HostReport answer{in.texts(max_checks)};
  require(answer.checks.size() % 2 == 0, "pairs of checks");
  return answer;
}

UpstreamSockets read_upstream(wire::Reader& in) {
  UpstreamSockets answer;
  answer.network.inode = in.u64();
  answer.network.since_ns = in.u64();
  return answer;
}

enum class AnswerTag : std::uint8_t {
  failed,
  done,
  created,
  inventory,
  unpacked,
  layers,
  credential,
  report,
  upstream
};

Answer read_answer(AnswerTag tag, wire::Reader& in) {
  switch (tag) {
    case AnswerTag::failed:
      return read_failed(in);
    case AnswerTag::done:
      return Done{};
    case AnswerTag::created:
      return read_created(in);
    case AnswerTag::inventory:
      return read_inventory(in);
    case AnswerTag::unpacked:
      return read_unpacked(in);
    case AnswerTag::layers:
      return Layers{read_layers(in, max_listed)};
    case AnswerTag::credential:
      return read_credential(in);
    case AnswerTag::report:
      return read_report(in);
    case AnswerTag::upstream:
      return read_upstream(in);
  }
  throw wire::DecodeError("answer type");
}

// The tag is the body's place in its variant.
template <typename Message>
std::string encode_message(const Message& message) {
  wire::Writer out;
  out.u32(message.number).u8(static_cast<std::uint8_t>(message.body.index()));
  std::visit([&](const auto& body) { write(out, body); }, message.body);
  return out.take();
}

}  // namespace

std::string encode(const RequestMessage& message) { return encode_message(message); }
std::string encode(const AnswerMessage& message) { return encode_message(message); }

RequestMessage decode_request(std::string_view bytes) {
  wire::Reader in(bytes);
  RequestMessage message;
  message.number = in.u32();
  message.body = read_request(static_cast<RequestTag>(in.u8()), in);
  in.finish();
  return message;
}

AnswerMessage decode_answer(std::string_view bytes) {
  wire::Reader in(bytes);
  AnswerMessage message;
  message.number = in.u32();
  message.body = read_answer(static_cast<AnswerTag>(in.u8()), in);
  in.finish();
  return message;
}

}  // namespace daiv::runtime
