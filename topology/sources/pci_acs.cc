#include "topology/sources/pci_acs.h"

#include <algorithm>

#include "topology/sources/pci_config.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kAcsId = 0x000d;
constexpr size_t kAcsControl = 6;  // offset of the control register in the capability

}  // namespace

Acs parse_acs(std::span<const uint8_t> config) {
  const PciCapability found = find_extended_capability(config, kAcsId);
  if (!found.known) return {};
  if (found.at == 0) return Acs{.known = true};
  const std::optional<uint16_t> control = word_at(config, found.at + kAcsControl);
  if (!control.has_value()) return {};
  return Acs{true, (*control & Acs::kRequestRedirect) != 0,
             (*control & Acs::kCompletionRedirect) != 0, control};
}

Acs read_acs(const fs::path& function) { return parse_acs(read_config(function)); }

std::vector<fs::path> turning_ports(const fs::path& one, const fs::path& other) {
  auto [in_one, in_other] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  fs::path shared;
  for (auto part = one.begin(); part != in_one; ++part) shared /= *part;
  if (!is_pci_function(shared)) return {};
  std::vector<fs::path> ports;
  auto add = [&](fs::path::iterator next, const fs::path& whole) {
    bool is_port = next != whole.end() && shared / *next != whole;
    if (is_port && is_pci_function(shared / *next)) ports.push_back(shared / *next);
  };
  add(in_one, one);
  add(in_other, other);
  return ports;
}

}  // namespace gdr::topology
