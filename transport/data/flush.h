// The flush: a loopback RDMA read of received data.
//
// A receiver's completion may reach the CPU before the data reaches the GPU, since both travel
// different PCIe paths. PCIe orders a read behind earlier writes on the same path, so that once the
// HCA has read one byte back, all of its earlier writes are in GPU memory (NCCL's net_ib does the
// same: src/transport/net_ib, ncclIbIflush).
#pragma once

#include <array>

#include "transport/memory/memory_handle.h"
#include "transport/memory/registered_block.h"
#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rail_end.h"

namespace gdr::transport {

// The flush of one rail.
class Flush {
 public:
  // The flush of the rail with that index within the connection, for up to `depth` reads at a time.
  // It has a QP once create() or reconnect() has made it.
  Flush(uint32_t rail, int depth) : depth_(depth) { pair_.rail = rail; }
  // The same with the QP. The completions of its reads arrive in the CQ of the rail `end`.
  static Result<Flush> create(const RailEnd& end, uint32_t rail, int depth);

  // Adds the changes of state that connect the QP to itself. `end` is the rail of create();
  // optional: StateChange's.
  void connect(const RailEnd& end, ServiceClass service, const ConnectionOptions& options,
               bool optional, StateChanges* changes) const;

  // Connects a QP in any state again, at once, by the rail's present address, and makes one that
  // does not exist yet. `end` is the rail of create().
  Status reconnect(const RailEnd& end, ServiceClass service, const ConnectionOptions& options);
  uint32_t rail() const { return pair_.rail; }
  // Whether the QP came to RTS. It may have failed since.
  bool was_connected() const { return pair_.qp != nullptr && pair_.qp->state == IBV_QPS_RTS; }

  // Reads one byte at `address`, which `memory` registers. Returns an errno value; 0 is success.
  int post(const void* address, const MemoryHandle& memory, uint64_t wr_id);

  ibv_qp* queue_pair() const { return pair_.qp.get(); }
  // Nothing is read from here on. Idempotent.
  void destroy_queue_pair() { pair_.qp.reset(); }

 private:
  Status make(const RailEnd& end);
  std::array<StateChange, 3> changes_to_ready(const RailEnd& end, const wire::RailAddress& address,
                                              ServiceClass service,
                                              const ConnectionOptions& options) const;

  int depth_;
  Pages<uint64_t> target_;
  verbs::UniqueMr target_mr_;  // destroyed before target_
  QueuePair pair_;             // destroyed before both
};

}  // namespace gdr::transport
