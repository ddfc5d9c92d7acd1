#pragma once

#include <string>

#include "cli/settings.hpp"

namespace daiv::cli {

// `daiv-sandbox ca …`: the egress CA's files. Each prints what it did and returns the exit code;
// failures are thrown as ControlFailure or os::Error.

struct CaFiles {
  std::string certificate;  // empty: the setting's
  std::string key;
};

// Makes a new pair: the certificate 0644, the key 0600. Never replaces a file.
int ca_init(const Settings& settings, CaFiles files);
// Writes, for the same key and name, a certificate that strict clients accept; the old one is kept
// beside it as *.old. Nothing to do where they accept it already.
int ca_repair(const Settings& settings, CaFiles files);
// Says whether the pair can be used, and what strict clients would refuse it for.
int ca_check(const Settings& settings, CaFiles files);

}  // namespace daiv::cli
