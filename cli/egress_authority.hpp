#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/protocol.hpp"
#include "cli/settings.hpp"
#include "proxy/certificate_authority.hpp"

namespace daiv::cli {

// Reads both files; they hold the pair of the egress CA. Throws os::Error.
proxy::PemPair read_authority(const Settings& settings);

// Checks the pair. Throws std::runtime_error that says which setting is wrong and what to do.
std::shared_ptr<const proxy::CertificateAuthority> load_authority(const Settings& settings,
                                                                  const proxy::PemPair& pair);

// What an operator must know of this CA: weaknesses that strict clients refuse, an end that is
// near; one line each.
std::vector<std::string> find_authority_remarks(const proxy::CertificateAuthority& authority);

// What sandboxes get: the certificate, the hash of its subject, and this host's public roots for
// images that have none, which it borrows.
agent::Trust plan_trust(const proxy::CertificateAuthority& authority,
                        std::string_view public_roots);

// The first bundle of trusted roots that this host has; empty where there is none.
std::string read_public_roots();

}  // namespace daiv::cli
