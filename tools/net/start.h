// Starting a plugin as a run needs it: initialised, with at least one device, and the one that the
// command line names. The errors say what to do, with the command that was called ("perf
// sendrecv").
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tools/net/net.h"

namespace gdr::tools {

// Initialises the plugin with a logger that prints warnings where NCCL_DEBUG is not set. Returns
// the context, which the caller finalizes.
Result<void*> init_plugin(Net& net, const InitArguments& settings, const std::string& command);

// Returns the number of devices, which is above 0.
Result<int> count_devices(Net& net, const std::string& command);

// Parses "2", or "0+1" for the device that the plugin is to merge of devices 0 and 1. Fails with
// kInvalidUsage; the text names what is accepted.
Result<MergedDevices> parse_device(std::string_view text);

// Returns the text that parse_device() reads.
std::string to_string(const MergedDevices& named);

// Returns the number of the device, which the plugin merges first where it has several parts. Fails
// where the plugin has no such devices or does not merge them.
Result<int> find_device(Net& net, const MergedDevices& named);

}  // namespace gdr::tools
