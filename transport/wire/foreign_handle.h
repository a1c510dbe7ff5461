// What a handle that is not this plugin's shows of the peer that made it.
#pragma once

#include <string>

#include "transport/wire/wire.h"

namespace gdr::transport {

// Returns why connect() refuses a handle without wire::kMagic, with what is known of its origin and
// the fix. Reads it as the handle of NCCL's own transports where it can be one: those, and plugins
// that were made from them, begin with the listener's socket address (union ncclSocketAddress of
// src/include/socket.h).
std::string foreign_handle_text(const wire::Handle& handle);

}  // namespace gdr::transport
