// What the literature expects of GPUDirect RDMA over a path.
#pragma once

#include <string_view>

namespace gdr::topology {

// Share of line rate for a path as display_name() words it: "95-98 %", or "-" where the guides to
// GPUDirect RDMA give none. Not measured by us.
const char* expected_share(std::string_view display_name);

// Says so, for people.
extern const char* const kExpectedShareNote;

}  // namespace gdr::topology
