// Copies of host memory, within this process or to and from another one. They give the ordering
// that programs poll for on real HCAs: the last 8 bytes of a write become visible after all bytes
// before them, and 8 aligned bytes become visible at once. (The IBTA specification promises
// neither, but ib_write_lat and others rely on it.)
#pragma once

#include <cstdint>

#include "softhca/datapath/segments.h"
#include "softhca/fabric/peer.h"

namespace softhca {

enum class CopyResult {
  kDone,
  kGone,       // the peer's process has ended (ESRCH)
  kFault,      // an address is not mapped any more (EFAULT)
  kForbidden,  // the kernel does not allow process_vm_readv and process_vm_writev
};

// Copy between this process's memory (`local`) and the peer's (`remote`), by
// process_vm_writev or process_vm_readv where the peer is another process. Both lists have the same
// number of bytes.
CopyResult write_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);
CopyResult read_host(const Peer& peer, const SegmentList& local, const SegmentList& remote);

// Copies within this process, in the order described above.
void copy_ordered(void* to, const void* from, uint64_t bytes);

}  // namespace softhca
