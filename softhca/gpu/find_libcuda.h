// Finds a libcuda that the application, or a library of it, has loaded into this process.
#pragma once

#include <optional>

#include "drivers/cuda/cuda_api.h"

namespace softhca {

// Returns nothing while no libcuda is loaded, or when it lacks a function. Not thread-safe. After a
// miss it searches again only when the process has loaded another library (dlpi_adds of
// dl_iterate_phdr).
std::optional<gdr::cuda::Api> find_libcuda();

}  // namespace softhca
