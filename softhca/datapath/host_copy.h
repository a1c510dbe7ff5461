// Copies of host memory, in this process or to and from another one, visible in order: the last 8
// bytes of a write appear after everything before them, and aligned 8 bytes at once.
#pragma once

#include <algorithm>

#include "softhca/datapath/work_request.h"
#include "softhca/fabric/peer.h"

namespace softhca {

enum class CopyResult { kDone, kGone, kFault, kForbidden };

// `remote` lies in the peer's address space. Both lists are of the same size.
CopyResult write_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);
CopyResult read_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);

// Walks two lists in pieces that are contiguous in both: copy(void* of a, void* of b, bytes).
template <class Copy>
void for_each_piece(const SegmentList& a, const SegmentList& b, Copy copy) {
  uint32_t i = 0, j = 0;
  uint64_t a_done = 0, b_done = 0;
  while (i < a.count && j < b.count) {
    uint64_t bytes = std::min(a.items[i].bytes - a_done, b.items[j].bytes - b_done);
    copy(reinterpret_cast<void*>(a.items[i].address + a_done),
         reinterpret_cast<void*>(b.items[j].address + b_done), bytes);
    a_done += bytes;
    b_done += bytes;
    if (a_done == a.items[i].bytes) ++i, a_done = 0;
    if (b_done == b.items[j].bytes) ++j, b_done = 0;
  }
}

// Within this process.
void copy_ordered(void* to, const void* from, uint64_t bytes);

}  // namespace softhca
