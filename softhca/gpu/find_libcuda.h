// Finds a libcuda that somebody else loaded into this process.
#pragma once

#include <optional>

#include "drivers/cuda/cuda_api.h"

namespace softhca {

// Nothing while none is loaded, or when it is too old to be used. Not thread-safe. A miss costs no
// look-up until the process has loaded another library.
std::optional<gdr::cuda::Api> find_libcuda();

}  // namespace softhca
