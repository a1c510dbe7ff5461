#include "topology/sources/pci_acs.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytes = 4096;
constexpr size_t kFirstCapability = 0x100;
constexpr uint32_t kNoResponse = 0xffffffff;  // what a read returns where no function answers
constexpr uint32_t kAcsId = 0x000d;
constexpr size_t kAcsControl = 6;  // offset of the control register in the capability
constexpr int kRequestRedirect = 1 << 2;
constexpr int kCompletionRedirect = 1 << 3;

// Configuration space is little-endian.
uint32_t number_at(std::span<const uint8_t> config, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(config[at + i]) << 8 * i;
  return value;
}

Acs acs_of_control(uint32_t control) {
  return Acs{true, (control & kRequestRedirect) != 0, (control & kCompletionRedirect) != 0};
}

}  // namespace

Acs parse_acs(std::span<const uint8_t> config) {
  size_t at = kFirstCapability;
  // A list of more capabilities than fit into the space has a loop.
  for (size_t seen = 0; seen < config.size() / 4; ++seen) {
    if (at < kFirstCapability || at + 4 > config.size()) return {};
    uint32_t header = number_at(config, at, 4);
    if (header == kNoResponse) return {};
    if ((header & 0xffff) == kAcsId) {
      if (at + kAcsControl + 2 > config.size()) return {};
      return acs_of_control(number_at(config, at + kAcsControl, 2));
    }
    at = header >> 20 & ~3u;  // the lowest two bits are reserved
    if (at == 0) return acs_of_control(0);
  }
  return {};
}

Acs read_acs(const fs::path& function) {
  std::ifstream stream(function / "config", std::ios::binary);
  std::vector<char> bytes(kConfigBytes);
  stream.read(bytes.data(), kConfigBytes);
  auto count = static_cast<size_t>(stream.gcount());
  return parse_acs({reinterpret_cast<const uint8_t*>(bytes.data()), count});
}

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
