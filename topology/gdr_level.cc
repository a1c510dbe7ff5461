#include "topology/gdr_level.h"

#include <cctype>
#include <cstdlib>

namespace gdr::topology {
namespace {

// The numeric form of NCCL's first releases (ncclGetLevel in src/graph/paths.cc); larger numbers
// mean the last.
constexpr PathClass kLegacyLevels[] = {PathClass::kLoc, PathClass::kPix, PathClass::kPxb,
                                       PathClass::kPhb, PathClass::kSys};
constexpr long kLegacyLevelCount = sizeof(kLegacyLevels) / sizeof(kLegacyLevels[0]);

std::string note_on_number(std::string_view number, const std::string& level) {
  return "NCCL takes the number " + std::string(number) + " of NCCL_NET_GDR_LEVEL for " + level +
         " (0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS; some guides number them differently): "
         "write the name instead";
}

}  // namespace

Result<GdrLevel> GdrLevel::parse(std::string_view text) {
  GdrLevel level;
  for (int i = 0; i < kPathClasses; ++i) {
    if (text != topology::to_string(static_cast<PathClass>(i))) continue;
    level.path_ = static_cast<PathClass>(i);
    return level;
  }
  if (text == "NODE") {
    return fail(Code::kInvalidUsage,
                "NCCL ignores it: nvidia-smi's NODE, two host bridges of one NUMA node, is PHB to "
                "NCCL");
  }
  if (text.empty() || text[0] < '0' || text[0] > '9') {
    return fail(Code::kInvalidUsage,
                "it is neither a path class in capitals nor a number, so NCCL ignores it too");
  }
  long number = std::strtol(std::string(text).c_str(), nullptr, 0);
  level.path_ = kLegacyLevels[number >= kLegacyLevelCount ? kLegacyLevelCount - 1 : number];
  level.number_note_ = note_on_number(text, level.to_string());
  return level;
}

}  // namespace gdr::topology
