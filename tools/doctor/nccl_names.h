// The names of NCCL's own variables, to find misspelt ones. Those of its transport (NCCL_IB_*,
// NCCL_SOCKET_*) are in plugin/config, which judges them.
#pragma once

#include <string>
#include <string_view>

namespace gdr::tools::doctor {

bool is_nccl_name(std::string_view name);

// Returns the name from which `name` differs by at most two letters, the nearest of several; ""
// where there is none.
std::string nccl_name_like(const std::string& name);

}  // namespace gdr::tools::doctor
