// PCI configuration spaces with extended capabilities, composed for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace gdr::topology {

struct Capability {
  unsigned at;
  unsigned id;
  unsigned next;         // offset of the next capability; 0: this is the last
  unsigned control = 0;  // the control register of ACS
};

// Returns the 4096 bytes that a privileged reader gets.
inline std::string config_space(std::initializer_list<Capability> capabilities) {
  std::string bytes(4096, '\0');
  auto put = [&](unsigned at, unsigned value, int count) {
    for (int i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> 8 * i);
  };
  for (const Capability& one : capabilities) {
    put(one.at, one.next << 20 | 1 << 16 | one.id, 4);
    put(one.at + 6, one.control, 2);
  }
  return bytes;
}

// Returns a space with ACS after another capability.
inline std::string config_with_acs(unsigned control) {
  return config_space({{0x100, 0x0001, 0x148}, {0x148, 0x000d, 0, control}});
}

}  // namespace gdr::topology
