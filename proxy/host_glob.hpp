#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/host_name.hpp"

namespace daiv::proxy {

// A rule's host: `*` stands for any run of characters, dots included, `?` for one, `[ab]` and
// `[!ab]` for one of a set, everything else for itself. The whole name must match. With `:PORT` at
// its end the rule is limited to that port. Labels in Unicode are compared in their ASCII form.
class HostGlob {
public:
  explicit HostGlob(std::string_view text);

  // Time is linear in the product of both lengths at worst.
  [[nodiscard]] bool matches(const HostName& host, std::uint16_t port) const;

  // Whether the rule means hosts that its writer named: a whole name, or a glob that ends in a
  // literal domain such as
  // "*.corp.example". Only such rules open private address ranges.
  [[nodiscard]] bool names_its_hosts() const noexcept;

  // Whether the rule is this literal address: only such a rule opens addresses that are never open
  // otherwise.
  [[nodiscard]] bool is_literal_address(std::string_view address) const noexcept;

  // As its writer spelled it.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
  std::string text_;
  std::string pattern_;
  std::optional<std::uint16_t> port_;
};

}  // namespace daiv::proxy
