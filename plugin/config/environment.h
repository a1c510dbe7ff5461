// The environment as a value, so that tests and tools need not change the process's own.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace gdr::config {

// Name to value.
using Environment = std::map<std::string, std::string, std::less<>>;

// The variables of this process whose names begin with NCCL_ or GDR_NCCL_, as they are now. As with
// getenv, no other thread may change the environment meanwhile.
Environment process_environment();

}  // namespace gdr::config
