// The list of HCAs that lets NCCL use the rails alone, for the environment of jobs.
#pragma once

#include <string>

#include "tools/inspection/inspection.h"

namespace gdr::tools::doctor {

// Returns the line for a shell that sets NCCL_IB_HCA to the rails, where the machine has other
// ports, too, below a comment that says why; a comment alone where no list can be proposed, as of a
// machine that `has_fault`, such as a rail that is down: it would be for what is left of the
// machine, and stay when it is repaired. The fixes of findings are all other settings.
std::string job_settings(const topo::Inspection& inspection, bool has_fault = false);

}  // namespace gdr::tools::doctor
