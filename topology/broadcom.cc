#include "topology/broadcom.h"

namespace gdr::topology {

int broadcom_generation(const PciIds& ids, BroadcomLevel level) {
  if (ids.vendor != 0x1000 || ids.subsystem_vendor != 0x1000) return 0;
  const int variant = ids.subsystem_device >> 12;
  if (ids.device == 0xc010 && variant == 0xa) return 4;
  if (ids.device == 0xc030 && variant == (level == BroadcomLevel::kInner ? 1 : 0)) return 5;
  return 0;
}

}  // namespace gdr::topology
