// The address of a PCI function.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gdr::topology {

struct Bdf {
  uint32_t domain = 0;  // above 0xffff behind VMD and some hypervisors
  uint8_t bus = 0;
  uint8_t device = 0;    // 0..31
  uint8_t function = 0;  // 0..7

  // "0000:3b:00.0" as Linux writes it; 4 to 8 hexadecimal digits of domain, or "3b:00.0" for
  // domain 0. Either case.
  static std::optional<Bdf> parse(std::string_view text);
  // Lower case, with the domain.
  std::string to_string() const;

  auto operator<=>(const Bdf&) const = default;
};

}  // namespace gdr::topology
