// What --check and several inputs print: lines for people, JSON for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/topo/check_report.h"
#include "tools/topo/inspection.h"

namespace gdr::tools::topo {

// One line for each fault: "link-width: GPU3 (0000:5d:00.0): the PCIe link has x8, ...", or one
// line that all is well. `node` precedes each line where it is not empty.
std::string check_text(const std::string& node, const Inspection& inspection,
                       const CheckReport& report);
nlohmann::ordered_json check_json(const std::string& node, const CheckReport& report);

// In place of the others, for a machine that cannot be read.
nlohmann::ordered_json error_json(const std::string& node, const Error& error);

// A line of the table of several machines.
struct Summary {
  std::string node, gpus, hcas, rails, speed, path, gpudirect, nccl, check;
};
Summary summary_of(const std::string& node, const Inspection& inspection,
                   const CheckReport& report);
std::string summary_table(const std::vector<Summary>& summaries);

}  // namespace gdr::tools::topo
