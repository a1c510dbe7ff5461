#include "softhca/datapath/work_request.h"

#include "softhca/datapath/staged_copy.h"
#include "softhca/fabric/peer.h"

namespace softhca {

void SegmentList::truncate(uint64_t length) {
  uint64_t kept = 0;
  gpu = -1;
  for (uint32_t i = 0; i < count; ++i) {
    if (kept == length) {
      count = i;
      break;
    }
    items[i].bytes = items[i].bytes < length - kept ? items[i].bytes : length - kept;
    kept += items[i].bytes;
    if (items[i].gpu >= 0) gpu = items[i].gpu;
  }
  bytes = kept;
}

Flight::Flight() = default;
Flight::~Flight() = default;

void Flight::drop_refs() {
  for (uint32_t i = 0; i < ref_count; ++i) Peer::release(refs[i]);
  ref_count = 0;
}

}  // namespace softhca
