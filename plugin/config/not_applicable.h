// Variables that NCCL's own InfiniBand transport reads and the plugin does not, since what they
// tune does not exist here or is always so. load() reports each that is set to something else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/finding.h"

namespace gdr::config {

// All of them are numbers.
struct NotApplicable {
  const char* name;       // "NCCL_IB_OOO_RQ"
  int64_t default_value;  // in NCCL 2.30
  int64_t ours;           // the value that describes what the plugin does; else default_value
  Severity severity;      // kInfo where nothing is lost, kWarning where the user would be misled
  const char* reason;     // what the plugin does instead; no full stop at the end
  const char* fix;        // an imperative; "" where nothing has to be done
};

// Returns every such variable, in order of names. With the rows of options.def they are all that
// the transport of NCCL 2.20 to 2.30 reads, and two that releases before 2.4 read.
const std::vector<NotApplicable>& not_applicable();

// Appends a finding where `value` asks for something that the plugin does not do: neither NCCL's
// default nor what the plugin does anyway.
void check_not_applicable(const NotApplicable& variable, const std::string& value,
                          Findings* findings);

}  // namespace gdr::config
