#include "topology/sources/pci_config.h"

#include <fstream>

namespace gdr::topology {
namespace {

constexpr size_t kConfigBytes = 4096;
constexpr size_t kFirstExtended = 0x100;
constexpr uint32_t kNoResponse = 0xffffffff;  // what a read returns where no function answers

}  // namespace

std::vector<uint8_t> read_config(const std::filesystem::path& function) {
  std::ifstream stream(function / "config", std::ios::binary);
  std::vector<uint8_t> bytes(kConfigBytes);
  stream.read(reinterpret_cast<char*>(bytes.data()), kConfigBytes);
  bytes.resize(static_cast<size_t>(stream.gcount()));
  return bytes;
}

std::optional<uint16_t> word_at(std::span<const uint8_t> config, size_t at) {
  if (at + 2 > config.size()) return std::nullopt;
  return static_cast<uint16_t>(config[at] | config[at + 1] << 8);
}

PciCapability find_extended_capability(std::span<const uint8_t> config, uint16_t id) {
  size_t at = kFirstExtended;
  for (size_t seen = 0; seen < config.size() / 4; ++seen) {
    if (at < kFirstExtended || at + 4 > config.size()) return {};
    const uint32_t header = *word_at(config, at) | uint32_t{*word_at(config, at + 2)} << 16;
    if (header == kNoResponse) return {};
    if ((header & 0xffff) == id) return {true, at};
    at = header >> 20 & ~3u;  // the lowest two bits are reserved
    if (at == 0) return {true, 0};
  }
  return {};
}

}  // namespace gdr::topology
