// Reads the environment into Options, and reports what could not be used.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/config/environment.h"
#include "plugin/config/not_applicable.h"
#include "plugin/config/options.h"
#include "plugin/config/variables.h"

namespace gdr::config {

// Returns the options that `environment` sets. A variable set to nothing counts as unset, as in
// NCCL. Never fails; appends to `findings`, which may be null, with the variable as the subject:
//   kError    a value that cannot be used; the default is used instead, but for NCCL_IB_DISABLE,
//             which is as NCCL reads it
//   kWarning  a part of a value that was ignored; a GDR_NCCL_* variable that does not exist; a
//             NCCL_IB_* variable that is probably misspelt; a value of not_applicable.h that would
//             mislead the user; MLX5_SINGLE_THREADED=1, with which `failover` is off
//   kInfo     another NCCL_IB_* variable or value that has no effect
// Example: NCCL_IB_TC: "300" cannot be used: it is out of range; the default is used: -1.
//          Fix: use -1 to 255
Options load(const Environment& environment, Findings* findings);

// One variable with what an environment makes of it.
struct Row {
  enum class State { kDefault, kSet, kRejected };

  const Variable* variable;
  State state;
  std::string value;      // as set; "" for kDefault
  std::string effective;  // the value in force; the default's text where none is set
  Findings findings;
};

// A variable of NCCL's own transport that does not apply to the plugin.
struct NotApplicableRow {
  const NotApplicable* variable;
  std::string value;  // as set; "" where it is not
  Findings findings;
};

struct Description {
  std::vector<Row> rows;                         // every variable, in the table's order
  std::vector<NotApplicableRow> not_applicable;  // likewise
  Findings unknown;  // about GDR_NCCL_* and NCCL_IB_* variables that neither table has
};

Description describe(const Environment& environment);

}  // namespace gdr::config
