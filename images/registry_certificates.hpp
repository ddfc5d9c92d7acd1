#pragma once

#include <string>
#include <vector>

namespace daiv::images {

// Files of a registry in a certs.d directory (dockerd(8), containers-certs.d(5)): authorities to
// trust besides the system's, and a client certificate with its key. Empty where there are none.
struct RegistryCertificates {
  std::vector<std::string> authorities;
  std::string client_certificate;
  std::string client_key;
};

// What the first of `roots` that has anything for `authority` ("registry.example.com:5000") has.
RegistryCertificates find_certificates(const std::vector<std::string>& roots,
                                       const std::string& authority);

}  // namespace daiv::images
