// Widths and speeds of links, as the kernel and ibv_port_attr encode them (IBTA 14.2.5.6
// "PortInfo"; ib_port_speed and ib_port_width in include/rdma/ib_verbs.h of Linux).
#pragma once

#include <cstdint>
#include <string>

namespace softhca {

struct LinkSpeed {
  uint8_t width = 2;   // 1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x
  uint16_t speed = 1;  // 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR, 256 XDR
};

// The highest speed that fits into the 8 bits of ibv_port_attr::active_speed: NDR.
constexpr uint16_t kNdr = 128;

// Returns the fastest link that is not above `gbps`, 1x QDR at least.
LinkSpeed encode_speed(uint32_t gbps);
// Returns the fastest speed of one lane that is not above `gbps` divided by the width's lanes.
uint16_t lane_speed(double gbps, uint8_t width);
// Returns 10^9 bits per second of all lanes, 0 for a code that is unknown here.
double rate_of(LinkSpeed link);

// Returns the text of the sysfs file `rate`, such as "400 Gb/sec (4X NDR)". The kernel writes SDR
// for a speed that it does not know.
std::string rate_text(double gbps, LinkSpeed link);

}  // namespace softhca
