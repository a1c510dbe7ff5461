// A device of a plugin as command lines name it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tools/net/net.h"

namespace gdr::tools {

// Parses "2", or "0+1" for the device that the plugin is to merge of devices 0 and 1. Fails with
// kInvalidUsage; the text names what is accepted.
Result<MergedDevices> parse_device(std::string_view text);

// Returns the text that parse_device() reads.
std::string to_string(const MergedDevices& named);

// Returns the number of the device, which the plugin merges first where it has several parts. Fails
// where the plugin has no such devices or does not merge them.
Result<int> find_device(Net& net, const MergedDevices& named);

}  // namespace gdr::tools
