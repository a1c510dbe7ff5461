// Whether CUDA shows the GPU of a measurement to this process, and so to the programs that it
// starts.
#pragma once

#include "base/result.h"
#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {

struct Host;

// kSystem, with the reason and the fix, where memory of the case is of a GPU that CUDA does not
// show.
Status check_gpus_of_case(const Host& host, const BurnInCase& one);

}  // namespace gdr::tools::doctor
