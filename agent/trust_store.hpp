#pragma once

#include <string>
#include <string_view>

#include "agent/protocol.hpp"
#include "os/unique_fd.hpp"

// The certificate of the egress CA in the places where programs of the usual distributions look for
// trusted ones, written without running anything of the image.
namespace daiv::agent {

// `bundle` (PEM) without a certificate that with_certificate() added, and with this one. The same
// text where it holds the certificate already.
std::string with_certificate(std::string_view bundle, std::string_view certificate);

// Below `root`, as its owner:
// - /usr/local/share/ca-certificates/daiv-egress.crt, and the same among the anchors of Fedora,
//   SUSE and Arch where they have such a directory, so that the image's own tools keep it;
// - /etc/ssl/certs/ca-certificates.crt: the image's bundle (of whatever layout) or, where it has
//   none, trust.public_roots; and the certificate;
// - the bundles of other layouts, where the image has them or their directory;
// - /etc/ssl/certs/daiv-egress.pem and trust.hash_name.N, the link that OpenSSL looks up.
// Running it again changes nothing; another certificate takes the earlier one's place. Symlinks of
// the image are followed inside `root` only; what is in the way and no regular file is replaced.
// Meant for a time when nothing else runs there. Throws os::Error.
void install_trust(const os::UniqueFd& root, const Trust& trust);

}  // namespace daiv::agent
