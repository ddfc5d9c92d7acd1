#include "images/chain_id.hpp"

namespace daiv::images {

std::vector<Digest> chain_ids(std::span<const Digest> diff_ids) {
  std::vector<Digest> chains;
  chains.reserve(diff_ids.size());
  for (const Digest& diff_id : diff_ids) {
    chains.push_back(chains.empty() ? diff_id
                                    : Digest::of(chains.back().string() + " " + diff_id.string()));
  }
  return chains;
}

}  // namespace daiv::images
