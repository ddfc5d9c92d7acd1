#include "agent/java_pkcs12.hpp"

#include <optional>

#include "agent/der.hpp"
#include "agent/pkcs12_seal.hpp"
#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

using namespace std::string_view_literals;
using wire::DecodeError;

constexpr std::uint32_t pfx_version = 3;

// The contents of object identifiers. RFC 7292 and RFC 2985, and of
// Java 2.16.840.1.113894.746875.1.1 (ORACLE_TrustedKeyUsage): without it Java takes a certificate
// for one of a key's chain.
constexpr auto id_data = "\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01"sv;
constexpr auto id_cert_bag = "\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x03"sv;
constexpr auto id_x509 = "\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01"sv;
constexpr auto id_friendly_name = "\x2a\x86\x48\x86\xf7\x0d\x01\x09\x14"sv;
constexpr auto id_trusted_key_usage = "\x60\x86\x48\x01\x86\xf9\x66\xad\xca\x7b\x01\x01"sv;
constexpr auto id_any_key_usage = "\x55\x1d\x25\x00"sv;

std::string object_id(std::string_view content) { return der_value(der_tag::object_id, content); }

std::string sequence(std::initializer_list<std::string_view> parts) {
  std::string content;
  for (const auto part : parts) content.append(part);
  return der_value(der_tag::sequence, content);
}

std::string content_info(std::string_view content) {
  return sequence(
      {object_id(id_data), der_value(der_tag::explicit_0, der_value(der_tag::octets, content))});
}

std::string our_attributes() {
  std::string name;
  for (const char letter : java_alias) name.append({'\0', letter});
  const std::string friendly = sequence(
      {object_id(id_friendly_name), der_value(der_tag::set, der_value(der_tag::bmp_string, name))});
  const std::string trusted = sequence(
      {object_id(id_trusted_key_usage), der_value(der_tag::set, object_id(id_any_key_usage))});
  // DER sorts a set by its encodings: the shorter one is first.
  return der_value(der_tag::set, trusted + friendly);
}

std::string our_safe(std::string_view certificate) {
  const std::string bag =
      sequence({object_id(id_x509),
                der_value(der_tag::explicit_0, der_value(der_tag::octets, certificate))});
  return content_info(sequence(
      {sequence({object_id(id_cert_bag), der_value(der_tag::explicit_0, bag), our_attributes()})}));
}

// What a ContentInfo of type data holds; empty for another type.
std::optional<std::string_view> find_data(DerReader info) {
  if (info.next(der_tag::object_id) != id_data) return std::nullopt;
  DerReader wrapped = info.enter(der_tag::explicit_0);
  const std::string_view content = wrapped.next(der_tag::octets);
  wrapped.finish();
  info.finish();
  return content;
}

// A safe that our_safe() made: one bag with exactly our attributes.
bool is_ours(std::string_view safe_content) {
  DerReader outer(safe_content);
  DerReader bags = outer.enter(der_tag::sequence);
  if (bags.at_end()) return false;
  DerReader bag = bags.enter(der_tag::sequence);
  if (!bags.at_end() || bag.next(der_tag::object_id) != id_cert_bag) return false;
  bag.next();  // the certificate
  return !bag.at_end() && bag.next().whole == our_attributes();
}

struct Safes {
  std::string others;     // ContentInfos that are not ours
  bool is_there = false;  // exactly our certificate
};

Safes read_safes(std::string_view authenticated, std::string_view ours) {
  DerReader outer(authenticated);
  DerReader list = outer.enter(der_tag::sequence);
  outer.finish();
  Safes safes;
  while (!list.at_end()) {
    const DerValue info = list.next();
    if (info.tag != der_tag::sequence) throw DecodeError("PKCS #12 has no list of safes");
    const auto data = find_data(DerReader(info.content));
    if (!data || !is_ours(*data)) {
      safes.others.append(info.whole);
    } else {
      safes.is_there = safes.is_there || info.whole == ours;
    }
  }
  return safes;
}

}  // namespace

bool is_pkcs12(std::string_view store) {
  try {
    DerReader reader(store);
    return reader.enter(der_tag::sequence).next_integer() == pfx_version;
  } catch (const DecodeError&) {
    return false;
  }
}

std::expected<std::string, StoreProblem> pkcs12_with_certificate(std::string_view store,
                                                                 std::string_view certificate) {
  DerReader outer(store);
  DerReader pfx = outer.enter(der_tag::sequence);
  outer.finish();
  const std::string_view version = pfx.next().whole;
  const auto authenticated = find_data(pfx.enter(der_tag::sequence));
  if (!authenticated) return std::unexpected(StoreProblem::unknown_format);  // signed by a key
  std::optional<Pkcs12Seal> seal;
  if (!pfx.at_end()) {
    const auto found = Pkcs12Seal::open(pfx.next().whole, *authenticated);
    if (!found) return std::unexpected(found.error());
    seal = *found;
  }
  pfx.finish();
  const std::string ours = our_safe(certificate);
  const Safes safes = read_safes(*authenticated, ours);
  if (safes.is_there) return std::string(store);
  const std::string made = der_value(der_tag::sequence, safes.others + ours);
  return sequence({version, content_info(made), seal ? seal->make(made) : std::string()});
}

}  // namespace daiv::agent
