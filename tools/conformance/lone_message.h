// One message from a process to itself, by plain calls of the table: unlike a Session, it can be
// used by many threads at once.
#pragma once

#include <cstdint>
#include <string>

#include "tools/net/net.h"

namespace gdr::tools {

// Listens, connects, sends a message whose data depends on `number`, verifies it and closes.
// Returns an empty text, or what failed.
std::string lone_message(Net& net, void* context, int dev, uint64_t number, double timeout_seconds);

}  // namespace gdr::tools
