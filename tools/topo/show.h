// What `nccl-gdr topo` prints of a machine, in each of its forms.
#pragma once

#include <string>

#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {

enum class View { kMatrix, kJson, kNcclXml, kGroupedNcclXml };

struct Outcome {
  std::string results;      // for stdout
  std::string diagnostics;  // for stderr
  int exit_code = 0;        // of tools/common/exit_codes.h
};

// Reads a machine and shows it.
Outcome show(const InspectOptions& options, View view);

}  // namespace gdr::tools::topo
