#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "proxy/host_name.hpp"

namespace daiv::proxy {

inline constexpr std::size_t max_synthetic_names = 2048;  // of one session

// Which address of a network of 65,536 stands for which name inside one sandbox. Addresses are IPv4
// in host byte order.
//
// A name's address follows from the name, so that after a restart of the daemon, which forgets all
// this, programs that remember addresses and programs that ask again agree. The names that were not
// used for longest give way.
class SyntheticNames {
public:
  explicit SyntheticNames(std::uint32_t pool) : pool_(pool) {}

  std::uint32_t address_of(const HostName& name);
  // Empty where the address stands for none that is known.
  std::optional<HostName> name_of(std::uint32_t address);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

private:
  struct Entry {
    std::uint32_t address;
    HostName name;
    std::uint64_t used;  // when, in uses
  };
  using Order = std::list<Entry>;  // last used first

  void touch(Order::iterator entry);
  void forget(std::uint32_t address);

  std::uint32_t pool_;
  std::uint64_t uses_ = 0;
  Order order_;
  std::unordered_map<std::uint32_t, Order::iterator> entries_;
};

}  // namespace daiv::proxy
