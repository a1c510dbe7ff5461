// The result of checking a machine.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"

namespace gdr::tools::topo {

struct CheckReport {
  Findings faults;
  std::vector<std::string> notes;  // what could not be checked, and what is worth knowing
};

}  // namespace gdr::tools::topo
