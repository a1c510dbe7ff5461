#include "tools/topo/check_report.h"

namespace gdr::tools::topo {

const char* name_of(Check check) {
  switch (check) {
    case Check::kNcclFails:
      return "nccl-fails";
    case Check::kNoGpu:
      return "no-gpu";
    case Check::kNoHca:
      return "no-hca";
    case Check::kNoRail:
      return "no-rail";
    case Check::kSetting:
      return "setting";
    case Check::kRailShare:
      return "rail-share";
    case Check::kPortDown:
      return "port-down";
    case Check::kNoGpuDirect:
      return "no-gpudirect";
    case Check::kNvlink:
      return "nvlink";
    case Check::kC2c:
      return "c2c";
    case Check::kLinkWidth:
      return "link-width";
    case Check::kLinkSpeed:
      return "link-speed";
    case Check::kPortSpeed:
      return "port-speed";
    case Check::kLinkLayer:
      return "link-layer";
    case Check::kGdrReach:
      return "gdr-reach";
    case Check::kNcclChoice:
      return "nccl-choice";
    case Check::kAcs:
      return "acs";
    case Check::kIommu:
      return "iommu";
    case Check::kNuma:
      return "numa-node";
    case Check::kBar:
      return "bar";
    case Check::kReadRequest:
      return "read-request";
    case Check::kDiagnostic:
      return "diagnostic";
  }
  return "";
}

}  // namespace gdr::tools::topo
