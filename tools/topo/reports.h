// What is printed of several machines.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/inspection.h"

namespace gdr::tools::topo {

// A line of the table of several machines.
struct Summary {
  std::string node, gpus, hcas, rails, speed, path, gpudirect, nccl;
};
Summary summary_of(const std::string& node, const Inspection& inspection);
std::string summary_table(const std::vector<Summary>& summaries);

}  // namespace gdr::tools::topo
