// Copies of host memory, in this process or to and from another one, visible in order: the last 8
// bytes of a write appear after everything before them, and aligned 8 bytes at once.
#pragma once

#include "softhca/peer.h"
#include "softhca/work_request.h"

namespace softhca {

enum class CopyResult { kDone, kGone, kFault, kForbidden };

// `remote` lies in the peer's address space. Both lists are of the same size.
CopyResult write_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);
CopyResult read_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);

// Within this process.
void copy_ordered(void* to, const void* from, uint64_t bytes);

}  // namespace softhca
