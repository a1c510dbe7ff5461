// Uninvited callers on a plugin's listening ports.
#pragma once

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"

namespace gdr::tools {

// TCP ports on which this process listens, from its descriptors and /proc/self/net/tcp{,6}.
std::vector<uint16_t> listening_ports();

// Calls each port in several ways: at once closed, random bytes, a few bytes, and silence. Returns
// the connections that are still open.
std::vector<UniqueFd> call_as_stranger(const std::vector<uint16_t>& ports, uint64_t seed);

}  // namespace gdr::tools
