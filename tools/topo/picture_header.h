// What stands above a picture: which machine it shows, and for which NCCL.
#pragma once

#include <string>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

// Returns the lines, of which the first is the title. `date` may be empty.
std::vector<std::string> header_lines(const RailDecision& decision, const std::string& date);

// Returns those of the texts that are not empty, with dots between them.
std::string joined(const std::vector<std::string>& texts);

// Returns today's date in UTC, or that of SOURCE_DATE_EPOCH (reproducible-builds.org: seconds since
// 1970), which makes pictures reproducible: "2026-11-22".
std::string picture_date();

}  // namespace gdr::tools::topo
