// The process environment as a value, so that tests and tools need not change their own.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace gdr::config {

// Maps names to values, in order of names.
using Environment = std::map<std::string, std::string, std::less<>>;

// Of libmlx5: "1" removes its locks.
constexpr char kMlx5SingleThreaded[] = "MLX5_SINGLE_THREADED";

// Returns the variables of this process whose names begin with NCCL_ or GDR_NCCL_, and
// kMlx5SingleThreaded. As with getenv(), no other thread may change the environment meanwhile.
Environment process_environment();

}  // namespace gdr::config
