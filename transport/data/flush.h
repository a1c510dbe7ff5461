// The flush: a loopback RDMA read of received data. Its completion means that all earlier writes of
// the HCA on the same PCIe path have reached GPU memory.
#pragma once

#include "transport/data/queue_pair.h"
#include "transport/data/rail_end.h"
#include "transport/memory/registered_block.h"

namespace gdr::transport {

class Flush {
 public:
  // The read's completion arrives in the rail's CQ.
  static Result<Flush> create(const RailEnd& rail, const TransportOptions& options, int depth);

  // Reads one byte at `address`. Returns an errno value, 0 is success.
  int post(const void* address, uint32_t rkey, uint64_t wr_id);

 private:
  QueuePair pair_;
  RegisteredBlock<uint64_t> target_;
};

}  // namespace gdr::transport
