// RDMA writes, the only requests that carry messages and clear-to-send. Inline, as they are the
// core of the data path: no allocation, lock or system call.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/pairs/queue_pair.h"

namespace gdr::transport {

// From local memory to the peer's. Zero bytes are allowed; the keys are those of the QP's rail.
struct RdmaWrite {
  uint64_t source;  // address in memory registered as lkey
  uint32_t bytes;
  uint32_t lkey;
  uint64_t target;  // address in the peer's memory registered as rkey
  uint32_t rkey;
  bool cpu_readable;  // the source is not GPU memory, so that short writes may be sent inline
};

// A work request and the one entry of its scatter/gather list, to which it points; so it stays
// where it was made.
class WriteRequest {
 public:
  // Prepares an unsignalled write: it completes silently, see wr().send_flags. The other fields of
  // ibv_send_wr do not concern writes and are left alone; zeroing them costs time.
  [[gnu::always_inline]] WriteRequest(const QueuePair& pair, const RdmaWrite& write)
      : entry_{write.source, write.bytes, write.lkey} {
    wr_.next = nullptr;
    wr_.sg_list = &entry_;
    wr_.num_sge = write.bytes > 0 ? 1 : 0;
    wr_.opcode = IBV_WR_RDMA_WRITE;
    // Writes of no bytes are not inline, a form that nobody else posts: 0 - 1 is the largest
    // number.
    const bool is_inline = write.cpu_readable && write.bytes - 1 < pair.inline_bytes;
    wr_.send_flags = is_inline ? IBV_SEND_INLINE : 0;
    wr_.wr.rdma.remote_addr = write.target;
    wr_.wr.rdma.rkey = write.rkey;
  }
  WriteRequest(const WriteRequest&) = delete;
  WriteRequest& operator=(const WriteRequest&) = delete;

  ibv_send_wr& wr() { return wr_; }

 private:
  ibv_sge entry_;
  ibv_send_wr wr_;
};

// Posts a request and those chained to it. Returns an errno value; 0 is success.
inline int post(const QueuePair& pair, ibv_send_wr* first) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(pair.qp.get(), first, &bad);
}

// Makes a prepared write one that consumes one of the peer's receives and shows it `immediate`, and
// that completes here.
[[gnu::always_inline]] inline void make_signalled_end(ibv_send_wr* wr, uint32_t immediate) {
  wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr->send_flags |= IBV_SEND_SIGNALED;
  wr->imm_data = htobe32(immediate);
}

// Posts a write that consumes one of the peer's receives and shows it `immediate`, so that the peer
// learns of the data without polling memory. Its completion here carries wr_id. Returns an errno
// value; 0 is success.
[[gnu::always_inline]] inline int write_with_immediate(const QueuePair& pair,
                                                       const RdmaWrite& write, uint32_t immediate,
                                                       uint64_t wr_id) {
  WriteRequest request(pair, write);
  ibv_send_wr& wr = request.wr();
  wr.wr_id = wr_id;
  make_signalled_end(&wr, immediate);
  return post(pair, &wr);
}

}  // namespace gdr::transport
