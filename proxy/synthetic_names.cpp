#include "proxy/synthetic_names.hpp"

#include <limits>
#include <string_view>

namespace daiv::proxy {
namespace {

constexpr std::uint32_t pool_mask = 0xffff;
// Addresses that may be a name's. Who chooses names that all want the same ones makes each of them
// give way to the next, and nothing slow.
constexpr std::uint32_t places = 16;

// FNV-1a: the same in every run, which std::hash does not promise.
std::uint32_t hash(std::string_view text) {
  std::uint32_t value = 2166136261U;
  for (const char letter : text) {
    value ^= static_cast<unsigned char>(letter);
    value *= 16777619U;
  }
  return value ^ value >> 16U;
}

// Some programs take .0 and .255 for a network and a broadcast.
std::uint32_t avoid_ends(std::uint32_t place) {
  const std::uint32_t last = place & 0xffU;
  return last == 0 || last == 0xff ? place ^ 0x01U : place;
}

}  // namespace

void SyntheticNames::touch(Order::iterator entry) {
  entry->used = ++uses_;
  order_.splice(order_.begin(), order_, entry);
}

void SyntheticNames::forget(std::uint32_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return;
  order_.erase(found->second);
  entries_.erase(found);
}

std::uint32_t SyntheticNames::address_of(const HostName& name) {
  const std::uint32_t start = hash(name.text());
  std::optional<std::uint32_t> chosen;
  std::uint64_t chosen_used = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t step = 0; step < places; ++step) {
    const std::uint32_t address = pool_ + avoid_ends((start + step) & pool_mask);
    const auto found = entries_.find(address);
    if (found != entries_.end() && found->second->name == name) {
      touch(found->second);
      return address;
    }
    const std::uint64_t used = found == entries_.end() ? 0 : found->second->used;
    if (used >= chosen_used) continue;
    chosen = address;
    chosen_used = used;
  }
  forget(*chosen);
  if (order_.size() >= max_synthetic_names) forget(order_.back().address);
  order_.push_front(Entry{*chosen, name, ++uses_});
  entries_.emplace(*chosen, order_.begin());
  return *chosen;
}

std::optional<HostName> SyntheticNames::name_of(std::uint32_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return std::nullopt;
  touch(found->second);
  return found->second->name;
}

}  // namespace daiv::proxy
