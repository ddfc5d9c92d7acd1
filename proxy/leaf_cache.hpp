#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "proxy/certificate_authority.hpp"

namespace daiv::proxy {

inline constexpr std::size_t max_cached_leaves = 1000;

// Certificates by host; the one that was not used for longest goes first.
class LeafCache {
public:
  // Empty where there is none, or where it expires within a day.
  std::optional<Leaf> find(const std::string& host, Time now);
  void put(const std::string& host, Leaf leaf);
  void clear();
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }

private:
  struct Entry {
    std::string host;
    Leaf leaf;
  };
  std::list<Entry> order_;  // last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
};

}  // namespace daiv::proxy
