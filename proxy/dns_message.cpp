#include "proxy/dns_message.hpp"

#include <optional>

namespace daiv::proxy {
namespace {

constexpr std::size_t header_bytes = 12;
constexpr std::size_t max_label_bytes = 63;
constexpr std::size_t max_name_bytes = 255;

constexpr std::uint16_t type_a = 1;
constexpr std::uint16_t type_aaaa = 28;
constexpr std::uint16_t class_in = 1;

// Long enough that programs need not ask for each connection. An address goes on to stand for its
// name after that.
constexpr std::uint32_t time_to_live_s = 60;

// RFC 1035 §4.1.1.
constexpr unsigned reply_bit = 0x80;                // of the third byte
constexpr unsigned opcode_bits = 0x78;              // of the third byte
constexpr unsigned recursion_desired_bit = 0x01;    // of the third byte
constexpr unsigned recursion_available_bit = 0x80;  // of the fourth byte

enum class Code : std::uint8_t {
  no_error = 0,
  format_error = 1,
  name_error = 3,
  not_implemented = 4,
  refused = 5,
};

unsigned byte_at(std::string_view bytes, std::size_t place) {
  return static_cast<unsigned char>(bytes[place]);
}

std::uint16_t number_at(std::string_view bytes, std::size_t place) {
  return static_cast<std::uint16_t>(byte_at(bytes, place) << 8U | byte_at(bytes, place + 1));
}

void append(std::string& out, std::uint16_t number) {
  out += static_cast<char>(number >> 8U);
  out += static_cast<char>(number & 0xffU);
}

struct Question {
  std::string name;     // labels with dots between; empty: the root
  bool is_text = true;  // no label has a dot or a NUL of its own
  std::uint16_t type = 0;
  std::uint16_t record_class = 0;
  std::size_t bytes = 0;  // of the message, after its header
};

// A compressed name (RFC 1035 §4.1.4) has nothing to point at here.
std::optional<Question> read_question(std::string_view rest) {
  Question question;
  std::size_t place = 0;
  for (;;) {
    if (place >= rest.size() || place >= max_name_bytes) return std::nullopt;
    const std::size_t length = byte_at(rest, place++);
    if (length == 0) break;
    if (length > max_label_bytes || length > rest.size() - place) return std::nullopt;
    const std::string_view label = rest.substr(place, length);
    if (label.find('.') != std::string_view::npos || label.find('\0') != std::string_view::npos)
      question.is_text = false;
    if (!question.name.empty()) question.name += '.';
    question.name += label;
    place += length;
  }
  if (place > max_name_bytes || rest.size() - place < 4) return std::nullopt;
  question.type = number_at(rest, place);
  question.record_class = number_at(rest, place + 2);
  question.bytes = place + 4;
  return question;
}

struct Reply {
  Code code = Code::no_error;
  std::string record_data;  // of one record of the question's type; empty: none
};

std::string to_bytes(std::uint32_t address) {
  std::string bytes;
  append(bytes, static_cast<std::uint16_t>(address >> 16U));
  append(bytes, static_cast<std::uint16_t>(address & 0xffffU));
  return bytes;
}

bool is_below(std::string_view name, std::string_view top) {
  return name == top || (name.ends_with(top) && name[name.size() - top.size() - 1] == '.');
}

Reply reply_for_localhost(std::uint16_t type) {
  constexpr std::uint32_t loopback = 0x7f000001;
  if (type == type_a) return {Code::no_error, to_bytes(loopback)};
  if (type == type_aaaa) return {Code::no_error, std::string(15, '\0') + '\1'};
  return {};
}

Reply reply_for(const Question& question, const NameToAddress& address_of) {
  if (question.record_class != class_in) return {Code::refused, {}};
  if (question.name.empty()) return {};
  const auto host = question.is_text ? HostName::parse(question.name) : std::nullopt;
  if (!host || host->is_address() || is_below(host->text(), "arpa")) return {Code::name_error, {}};
  if (is_below(host->text(), "localhost")) return reply_for_localhost(question.type);
  if (question.type != type_a) return {};
  return {Code::no_error, to_bytes(address_of(*host))};
}

std::string make_header(std::string_view query, Code code, bool has_question, bool has_record) {
  std::string header(query.substr(0, 2));
  header +=
      static_cast<char>(reply_bit | (byte_at(query, 2) & (opcode_bits | recursion_desired_bit)));
  header += static_cast<char>(recursion_available_bit | static_cast<unsigned>(code));
  append(header, has_question ? 1 : 0);
  append(header, has_record ? 1 : 0);
  append(header, 0);
  append(header, 0);
  return header;
}

}  // namespace

std::string answer_dns_query(std::string_view query, const NameToAddress& address_of) {
  if (query.size() < header_bytes || (byte_at(query, 2) & reply_bit) != 0) return {};
  if ((byte_at(query, 2) & opcode_bits) != 0)
    return make_header(query, Code::not_implemented, false, false);
  // What follows the question (EDNS, RFC 6891) asks for nothing that these replies need.
  const bool asks_one = number_at(query, 4) == 1 && number_at(query, 6) == 0;
  const auto question = asks_one ? read_question(query.substr(header_bytes)) : std::nullopt;
  if (!question) return make_header(query, Code::format_error, false, false);
  const auto [code, data] = reply_for(*question, address_of);
  std::string reply = make_header(query, code, true, !data.empty());
  reply += query.substr(header_bytes, question->bytes);
  if (data.empty()) return reply;
  append(reply, 0xc000U | header_bytes);  // the question's name (RFC 1035 §4.1.4)
  append(reply, question->type);
  append(reply, class_in);
  append(reply, static_cast<std::uint16_t>(time_to_live_s >> 16U));
  append(reply, static_cast<std::uint16_t>(time_to_live_s & 0xffffU));
  append(reply, static_cast<std::uint16_t>(data.size()));
  reply += data;
  return reply;
}

}  // namespace daiv::proxy
