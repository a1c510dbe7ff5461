// Copies that one process asks another one's engine to make, in the memory that only that one
// reaches.
#pragma once

#include <cstdint>
#include <memory>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"
#include "softhca/gpu/copier.h"

namespace softhca {

struct CopyOrder {
  uint64_t chunk;    // offset in the requester's arena
  uint64_t address;  // in the owner's address space
  uint64_t bytes;
  int32_t gpu;
  bool fetch;  // address -> chunk
  uint32_t hint;
};

// Null when the owner has no free place now. The requester sets kFree when it has seen the result.
CopyRequest* place_request(Process& process, const Peer& owner, const CopyOrder& order);
// Takes a request back, or waits for its end.
void withdraw_request(Peer& owner, CopyRequest& request);

// The owner's side; the engine's.
class CopyServer {
 public:
  explicit CopyServer(Process& process) : process_(process) {}
  // True while there is something to do.
  bool serve();

 private:
  void begin(CopyRequest& request, uint32_t index);
  void advance(CopyRequest& request, uint32_t index);

  Process& process_;
  uint32_t running_ = 0;
  struct Running {
    std::shared_ptr<Peer> requester;  // keeps the chunk mapped
    GpuTicket ticket;
    uint32_t polls = 0;
  };
  Running copies_[kCopyRequests];
};

}  // namespace softhca
