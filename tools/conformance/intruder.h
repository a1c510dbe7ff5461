// Unauthenticated connections to a plugin's listening ports.
#pragma once

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"

namespace gdr::tools {

// Returns the TCP ports on which this process listens, from its descriptors and /proc/self/net/tcp
// and tcp6 (proc(5)).
std::vector<uint16_t> listening_ports();

// Connects to each port many times: without sending anything, with a few bytes and with many random
// bytes; once closing at once and once staying connected. Returns the connections that are still
// open.
std::vector<UniqueFd> intrude(const std::vector<uint16_t>& ports, uint64_t seed);

}  // namespace gdr::tools
