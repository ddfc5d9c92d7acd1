#pragma once

#include <span>
#include <vector>

#include "images/digest.hpp"

namespace daiv::images {

// The chainID of each layer with all below it (OCI image spec, config.md, "Layer ChainID"): the
// first is its diffID, each further one the digest of "<chainID below> <diffID>". `diff_ids` bottom
// first.
std::vector<Digest> chain_ids(std::span<const Digest> diff_ids);

}  // namespace daiv::images
