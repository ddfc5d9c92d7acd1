#include "agent/java_store.hpp"

#include "agent/java_jks.hpp"
#include "agent/java_pkcs12.hpp"
#include "wire/codec.hpp"

namespace daiv::agent {

std::expected<std::string, StoreProblem> with_java_certificate(std::string_view store,
                                                               std::string_view certificate) {
  try {
    if (is_jks(store)) return jks_with_certificate(store, certificate);
    if (is_pkcs12(store)) return pkcs12_with_certificate(store, certificate);
    return std::unexpected(StoreProblem::unknown_format);
  } catch (const wire::DecodeError&) {
    return std::unexpected(StoreProblem::malformed);
  }
}

}  // namespace daiv::agent
