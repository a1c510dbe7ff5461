// The address of a PCI function: domain, bus, device and function.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gdr::topology {

// Ordered as Linux lists functions: by domain, then bus, device and function.
struct Bdf {
  uint32_t domain = 0;  // above 0xffff behind Intel VMD and under some hypervisors
  uint8_t bus = 0;
  uint8_t device = 0;    // 0..31
  uint8_t function = 0;  // 0..7

  // Parses "0000:3b:00.0" as Linux writes it, in either case, with 4 to 8 hexadecimal digits of
  // domain, or "3b:00.0" for domain 0. Returns nothing for any other text.
  static std::optional<Bdf> parse(std::string_view text);

  // Returns the address in lower case with its domain: "0000:3b:00.0".
  std::string to_string() const;

  auto operator<=>(const Bdf&) const = default;
};

}  // namespace gdr::topology
