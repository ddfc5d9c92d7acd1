#include <string>

#include "agent/java_jks.hpp"
#include "agent/java_store.hpp"
#include "input.hpp"

// A store that takes the certificate has it, takes it again without a change, and takes another in
// its place. JKS is sealed here, or no input would come further than its digest.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv;
  std::string store(fuzz::text_of(data, size));
  if (agent::is_jks(store)) store += agent::jks_seal(store);
  const std::string certificate = "a certificate of the fuzzer's";
  const auto with = agent::with_java_certificate(store, certificate);
  if (!with) return 0;
  fuzz::require(with->find(certificate) != std::string::npos);
  fuzz::require(agent::with_java_certificate(*with, certificate) == *with);
  const auto other = agent::with_java_certificate(*with, "another");
  fuzz::require(other && other->find("another") != std::string::npos);
  return 0;
}
