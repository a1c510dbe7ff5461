// Message sizes: lists for a sweep, and text for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools {

// begin, begin*factor, ... up to and with end where it is hit. begin may be 0: then 0 comes first
// and 1 after it.
Result<std::vector<size_t>> size_sweep(size_t begin, size_t end, size_t factor);

// How often a message of this size goes over the wire by default: enough bytes for a steady
// figure, within [least, most] messages.
size_t default_iterations(size_t bytes, size_t budget_bytes, size_t least, size_t most);

// "8 B", "64 KiB", "1.5 MiB".
std::string human_bytes(size_t bytes);

}  // namespace gdr::tools
