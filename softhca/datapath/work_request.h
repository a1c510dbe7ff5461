// A send work request in its queue, and the means of carrying it out.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "softhca/fabric/shared_layout.h"
#include "softhca/gpu/copier.h"

namespace softhca {

class Bounce;

struct Segment {
  uint64_t address;  // in the address space of the process it belongs to
  uint64_t bytes;
  int32_t gpu;  // CUDA device, or -1
};

struct SegmentList {
  uint32_t count = 0;
  int32_t gpu = -1;  // of the last segment in GPU memory
  uint64_t bytes = 0;
  Segment items[kMaxSge];

  void clear() {
    count = 0;
    gpu = -1;
    bytes = 0;
  }
  void add(uint64_t address, uint64_t length, int32_t device) {
    if (length == 0) return;
    items[count++] = {address, length, device};
    bytes += length;
    if (device >= 0) gpu = device;
  }
  // Keeps the first `length` bytes.
  void truncate(uint64_t length);
};

// What a request holds while it is carried out. Kept per queue slot, so that nothing is allocated
// once a slot was used.
struct Flight {
  Flight();
  Flight(Flight&&) = delete;
  ~Flight();

  SegmentList local;
  SegmentList remote;
  SharedMr* refs[2 * kMaxSge + 1];
  uint32_t ref_count = 0;
  bool has_recv = false;  // `recv` is owed to the receiver
  bool solicited = false;
  bool bouncing = false;  // through staging; else by one lane's copies
  Cqe recv;
  GpuTicket ticket{};
  uint32_t polls = 0;
  uint64_t dead_since = 0;  // when the peer was seen gone; 0: it is there
  std::unique_ptr<Bounce> bounce;

  void hold(SharedMr* mr) { refs[ref_count++] = mr; }
  void drop_refs();
};

struct Wqe {
  uint64_t wr_id;
  ibv_wr_opcode opcode;
  uint32_t flags;  // ibv_send_flags
  uint32_t imm;
  uint32_t rkey;
  uint64_t remote_address;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t num_sge;
  uint32_t inline_bytes;  // the data lies in the slot's inline buffer when flags say so
  ibv_sge* sge;
  uint8_t* inline_data;

  bool flying;            // started, not finished
  bool arrived;           // flown, but something before it has not
  ibv_wc_status outcome;  // when arrived
  bool wait_alone;        // starts only when everything before it is finished
  uint32_t rnr_left;
  uint64_t retry_at;  // CLOCK_MONOTONIC ns, as the next two; 0: not waiting
  uint64_t deadline;
  uint64_t due;
  std::unique_ptr<Flight> flight;

  void reset() {
    flags = num_sge = inline_bytes = 0;
    flying = arrived = wait_alone = false;
    retry_at = deadline = due = 0;
  }
  bool inlined() const { return (flags & IBV_SEND_INLINE) != 0; }
  bool sends() const { return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM; }
  bool with_imm() const {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool consumes_receive() const { return sends() || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
  bool atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  // Data comes back to the requester.
  bool fetches() const { return opcode == IBV_WR_RDMA_READ || atomic(); }
};

}  // namespace softhca
