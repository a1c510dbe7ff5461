#include "softhca/datapath/segments.h"

namespace softhca {

void SegmentList::truncate(uint64_t length) {
  uint64_t kept = 0;
  gpu = -1;
  for (uint32_t i = 0; i < count; ++i) {
    if (kept == length) {
      count = i;
      break;
    }
    items[i].bytes = std::min(items[i].bytes, length - kept);
    kept += items[i].bytes;
    if (items[i].gpu >= 0) gpu = items[i].gpu;
  }
  bytes = kept;
}

}  // namespace softhca
