// What `nccl-gdr topo` prints of a machine, in each of its forms.
#pragma once

#include <string>

#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {

enum class View { kMatrix, kJson, kNcclXml, kGroupedNcclXml, kSvg };

struct Outcome {
  std::string results;      // for stdout
  std::string diagnostics;  // for stderr
  std::string picture;      // for a file, where it was asked for
  int exit_code = 0;        // of tools/common/exit_codes.h
};

// Reads a machine and shows it; with_picture: fills Outcome::picture, too.
Outcome show(const InspectOptions& options, View view, bool with_picture);

}  // namespace gdr::tools::topo
