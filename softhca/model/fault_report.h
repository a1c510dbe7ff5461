// What the software HCA prints of each fault that happens, where "report_faults" of the
// configuration is true. softhca/README.md describes the line.
#pragma once

#include "softhca/model/event_trigger.h"
#include "softhca/model/fault_config.h"

namespace softhca {

// Prints one line on stderr: "softhca: fault happens: " and a JSON object. `request` is the one at
// which it happens, or null.
void print_fault(const FaultConfig& fault, const RequestMoment* request);

}  // namespace softhca
