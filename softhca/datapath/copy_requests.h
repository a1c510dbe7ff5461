// Copies that one process asks another one's engine to make, because only that process reaches its
// memory: CUDA memory, or host memory where process_vm_writev is forbidden. The requests lie in the
// arena of the process that serves them (its "owner").
#pragma once

#include <cstdint>
#include <memory>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"
#include "softhca/gpu/gpu_ticket.h"

namespace softhca {

struct CopyOrder {
  uint64_t chunk;    // offset in the requester's arena
  uint64_t address;  // in the owner's address space
  uint64_t bytes;    // at most kChunkBytes
  int32_t gpu;       // of `address`, -1 for host memory
  bool fetch;        // true: address -> chunk; false: chunk -> address
  uint32_t hint;     // which copy lane
};

// Hands a copy to the owner's engine and wakes it. Returns null when all kCopyRequests entries are
// in use; try again later. The requester polls `state` for kDone or kFailed and then sets kFree.
CopyRequest* place_request(Process& process, const Peer& owner, const CopyOrder& order);
// Takes a request back that was not started, else waits until it is finished or the owner has
// ended.
void withdraw_request(Peer& owner, CopyRequest& request);

// Returns true while this process has a request to carry out that the process `instance` placed.
bool copies_for(const Process& process, uint64_t instance);

// The owner's side, which runs in its engine.
class CopyServer {
 public:
  explicit CopyServer(Process& process) : process_(process) {}
  // Starts new requests and completes running ones. Returns true while there is something to do.
  bool serve();

 private:
  struct Running {
    std::shared_ptr<Peer> requester;  // keeps the chunk mapped
    GpuTicket ticket;
    uint32_t polls = 0;
  };

  void start(CopyRequest& request, uint32_t index);
  CopyState copy_now(const CopyRequest& request, Running& copy);
  void advance(CopyRequest& request, uint32_t index);
  // Gives the result to the requester.
  void finish(CopyRequest& request, Running& copy, CopyState result);

  Process& process_;
  uint32_t running_ = 0;
  Running copies_[kCopyRequests];
};

}  // namespace softhca
