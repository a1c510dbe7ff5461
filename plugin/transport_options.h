// The user's environment as the transport's options.
#pragma once

#include "base/result.h"
#include "plugin/config/options.h"
#include "transport/options.h"

namespace gdr::plugin {

// Chooses the network interface of the handshake, which is what can fail.
Result<transport::TransportOptions> make_transport_options(const config::Options& options);

}  // namespace gdr::plugin
