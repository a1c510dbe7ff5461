// A send work request in its queue, and the state of its transfer.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "softhca/datapath/segments.h"
#include "softhca/datapath/staged_copy.h"
#include "softhca/fabric/peer.h"
#include "softhca/fabric/shared_layout.h"
#include "softhca/gpu/gpu_ticket.h"

namespace softhca {

// What a request holds while its bytes are moved. A queue slot keeps its Transfer for the next
// request, so that nothing is allocated once the slot was used.
struct Transfer {
  SegmentList local;
  SegmentList remote;
  // Registrations in use: deregistration waits until they are released.
  SharedMr* held[2 * kMaxSge + 1];
  uint32_t held_count = 0;
  bool has_receive = false;  // `receive` has to be pushed when the transfer completes
  bool solicited = false;
  bool is_read = false;  // counted in QueuePair::reads_in_progress()
  bool staged = false;   // in progress by `staged_copy`, else by the copies of one lane
  Cqe receive;
  GpuTicket ticket{};
  uint32_t polls = 0;
  uint64_t dead_since = 0;  // when the peer was found to have ended (ns); 0 while it is alive
  std::unique_ptr<StagedCopy> staged_copy;

  void hold(SharedMr* mr) { held[held_count++] = mr; }
  void release_all() {
    for (uint32_t i = 0; i < held_count; ++i) Peer::release(held[i]);
    held_count = 0;
  }
};

// What became of starting or advancing a transfer.
struct TransferResult {
  enum Kind {
    kFinished,        // with `status`
    kInProgress,      // call advance_transfer() until it is finished
    kNeedsExclusive,  // must not overtake what is in progress: start it when nothing is
    kNoAnswer,        // the remote end is gone, its port is down, or it is not connected to this QP
    kReceiverNotReady,  // no receive is posted at the remote end
    kUnacknowledged,    // delivered, but the acknowledgement is lost
  };
  Kind kind = kFinished;
  ibv_wc_status status = IBV_WC_SUCCESS;

  bool succeeded() const { return kind == kFinished && status == IBV_WC_SUCCESS; }
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
  uint32_t inline_bytes;  // with IBV_SEND_INLINE the data is in the slot's inline buffer
  ibv_sge* sge;
  uint8_t* inline_data;

  bool started;                 // `transfer` is in progress or completed, but not yet retired
  bool completed;               // with `outcome`; waits for earlier requests to be retired
  bool exclusive;               // starts only when everything before it is finished
  bool resent;                  // delivered; acknowledged when both ends reach each other again
  ibv_wc_status outcome;        // once completed
  uint32_t reached;             // bit 1 << Moment for each that was counted for the faults
  ibv_wc_status receive_fault;  // with which a fault completes its receive
  // The epoch of the remote QP in which a read met as many in progress as it allows. Kept, since
  // none is in progress when the read is tried alone. 0: no epoch.
  uint32_t exceeds_depth_of;
  uint32_t rnr_left;   // retries left while the receiver is not ready
  uint64_t posted_at;  // CLOCK_MONOTONIC ns, where the link is modelled
  uint64_t retry_at;   // the same, as the next three; 0 where there is nothing to wait for
  uint64_t deadline;
  uint64_t due;
  uint64_t ack_delay;  // ns; 0: the acknowledgement comes at once
  uint64_t ack_at;     // of a delivered request whose acknowledgement is late or lost: when it ends
  std::unique_ptr<Transfer> transfer;

  void reset() {
    flags = num_sge = inline_bytes = 0;
    started = completed = exclusive = resent = false;
    reached = exceeds_depth_of = 0;
    receive_fault = IBV_WC_SUCCESS;
    posted_at = retry_at = deadline = due = ack_delay = ack_at = 0;
  }
  uint64_t bytes() const {
    uint64_t sum = inline_bytes;
    for (uint32_t i = 0; i < num_sge; ++i) sum += sge[i].length;
    return sum;
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
  // Returns true for requests whose data comes back to the requester.
  bool fetches() const { return opcode == IBV_WR_RDMA_READ || atomic(); }
};

}  // namespace softhca
