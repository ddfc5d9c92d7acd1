#include "proxy/leaf_cache.hpp"

namespace daiv::proxy {

std::optional<Leaf> LeafCache::find(const std::string& host, Time now) {
  const auto found = entries_.find(host);
  if (found == entries_.end()) return std::nullopt;
  if (found->second->leaf.expires() < now + std::chrono::days(1)) {
    order_.erase(found->second);
    entries_.erase(found);
    return std::nullopt;
  }
  order_.splice(order_.begin(), order_, found->second);
  return found->second->leaf;
}

void LeafCache::put(const std::string& host, Leaf leaf) {
  const auto known = entries_.find(host);
  if (known != entries_.end()) {
    known->second->leaf = std::move(leaf);
    return;
  }
  order_.push_front(Entry{host, std::move(leaf)});
  entries_[host] = order_.begin();
  if (order_.size() <= max_cached_leaves) return;
  entries_.erase(order_.back().host);
  order_.pop_back();
}

void LeafCache::clear() {
  entries_.clear();
  order_.clear();
}

}  // namespace daiv::proxy
