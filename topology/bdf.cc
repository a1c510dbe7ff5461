#include "topology/bdf.h"

#include <charconv>
#include <cstdio>

namespace gdr::topology {
namespace {

// Parses the whole text as a hexadecimal number of `least` to `most` digits.
bool parse_hex(std::string_view text, size_t least, size_t most, uint32_t* number) {
  if (text.size() < least || text.size() > most) return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, 16);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<Bdf> Bdf::parse(std::string_view text) {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  size_t dot = text.rfind('.');
  size_t device_colon = text.rfind(':');
  if (dot == std::string_view::npos || device_colon == std::string_view::npos) return std::nullopt;
  if (dot < device_colon) return std::nullopt;
  std::string_view before = text.substr(0, device_colon);
  size_t domain_colon = before.rfind(':');
  if (domain_colon != std::string_view::npos) {
    if (!parse_hex(before.substr(0, domain_colon), 4, 8, &domain)) return std::nullopt;
    before.remove_prefix(domain_colon + 1);
  }
  if (!parse_hex(before, 2, 2, &bus) ||
      !parse_hex(text.substr(device_colon + 1, dot - device_colon - 1), 2, 2, &device) ||
      !parse_hex(text.substr(dot + 1), 1, 1, &function) || device > 31 || function > 7) {
    return std::nullopt;
  }
  return Bdf{domain, static_cast<uint8_t>(bus), static_cast<uint8_t>(device),
             static_cast<uint8_t>(function)};
}

std::string Bdf::to_string() const {
  char text[24];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

}  // namespace gdr::topology
