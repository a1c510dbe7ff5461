// The converters: a Net over a plugin's table of a given version.
#pragma once

#include <memory>

#include "tools/net/net.h"

namespace gdr::tools {

// `table` is the plugin's ncclNet_v<version>_t and outlives the result. The version must be within
// kOldestTable and kNewestTable.
std::unique_ptr<Net> make_net(int version, const void* table);

}  // namespace gdr::tools
