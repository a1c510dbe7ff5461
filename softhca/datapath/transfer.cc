#include "softhca/datapath/transfer.h"

#include <algorithm>

#include "softhca/datapath/async_transfer.h"
#include "softhca/datapath/completions.h"
#include "softhca/datapath/fault_events.h"
#include "softhca/datapath/host_copy.h"
#include "softhca/datapath/receive_ring.h"

namespace softhca {

namespace {

TransferResult finished(ibv_wc_status status) { return {TransferResult::kFinished, status}; }

// Looks up the memory of the requester. Returns false for a wrong lkey, range, PD or access.
bool gather_local(const QueuePair& qp, const Wqe& wqe, Transfer& transfer) {
  transfer.local.clear();
  if (wqe.inlined()) {
    transfer.local.add(reinterpret_cast<uint64_t>(wqe.inline_data), wqe.inline_bytes, -1);
    return true;
  }
  const uint32_t access = wqe.fetches() ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (uint32_t i = 0; i < wqe.num_sge; ++i) {
    if (wqe.sge[i].length == 0) continue;
    uint64_t address = 0;
    SharedMr* mr = qp.process().self().acquire(wqe.sge[i], qp.shared().pd, access, &address);
    if (mr == nullptr) return false;
    transfer.hold(mr);
    transfer.local.add(address, wqe.sge[i].length, mr->gpu);
  }
  return true;
}

Cqe receive_completion(const QueuePair& qp, const Wqe& wqe, const Transfer& transfer) {
  Cqe entry = {};
  entry.wr_id = oldest_receive(qp.peer(), qp.remote()).wr_id;
  entry.opcode = wqe.sends() ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  entry.byte_len = static_cast<uint32_t>(transfer.local.bytes);
  entry.imm = wqe.with_imm() ? wqe.imm : 0;
  entry.wc_flags = wqe.with_imm() ? IBV_WC_WITH_IMM : 0;
  entry.qp_num = qp.remote().qpn;
  entry.src_qp = qp.shared().qpn;
  entry.slid = qp.port().lid;
  entry.sl = qp.shared().sl;
  return entry;
}

// Consumes the receive with the error `theirs` and stops the remote QP; `ours` is the requester's.
TransferResult fail_receive(QueuePair& qp, const Wqe& wqe, const Transfer& transfer,
                            ibv_wc_status theirs, ibv_wc_status ours) {
  Cqe entry = receive_completion(qp, wqe, transfer);
  entry.status = theirs;
  entry.byte_len = 0;
  pop_receive(qp.remote());
  push_completion(qp.process(), qp.peer(), qp.remote().recv_cq, entry, true);
  qp.fail_remote(-1);
  return finished(ours);
}

// The answer of a responder that sends the NAK "invalid request". One of UC sends none, and drops
// the message (rxe_responder() of Linux, rxe_resp.c).
TransferResult refuse(QueuePair& qp) {
  if (!qp.reliable()) return {TransferResult::kNoAnswer};
  qp.fail_remote(IBV_EVENT_QP_REQ_ERR);
  return finished(IBV_WC_REM_INV_REQ_ERR);
}

// A responder answers in order, and its errors stop the remote QP. So a request that fails at the
// remote end waits, like one that may not overtake, until nothing earlier is in progress.
constexpr TransferResult kNeedsExclusive = {TransferResult::kNeedsExclusive};

// Answers a request that begins with packets before the expected one, as duplicate_request() of
// Linux (rxe_resp.c): they are taken for repetitions. Those of writes and sends are acknowledged
// and dropped. (The acknowledgement names the packet before the expected one. A requester that
// never sent that one may ignore it, as hfi1's does, and end with RETRY_EXC_ERR; data that is lost
// without an error is the harder case for a program.) A message that goes on with the expected
// packet lacks its first one there. A read or an atomic is not among those that were answered
// before, so that it is lost.
TransferResult answer_repetition(QueuePair& qp, const Wqe& wqe, uint64_t bytes) {
  if (wqe.fetches()) return {TransferResult::kNoAnswer};
  if (qp.packets_of(bytes) > qp.packets_behind()) return refuse(qp);
  qp.count_sent(bytes);
  return {};
}

// Whether the message is longer than one of two unequal path MTUs. All packets of it but the last
// must be as long as the responder's, and the last not longer (rxe_resp_check_length() of Linux,
// rxe_resp.c).
bool exceeds_smaller_mtu(const QueuePair& qp, uint64_t bytes) {
  const uint32_t mtu = qp.attributes().path_mtu;
  const uint32_t other = qp.remote().path_mtu;
  return mtu != other && bytes > (128u << std::min(mtu, other));
}

// Whether the responder has no more resources for the read or atomic, as it is connected now.
bool exceeds_read_depth(const QueuePair& qp, Wqe& wqe) {
  if (!wqe.fetches()) return false;
  const uint32_t epoch = qp.remote().epoch.load(std::memory_order_relaxed);
  if (qp.reads_in_progress() >= qp.remote().max_dest_rd_atomic) wqe.exceeds_depth_of = epoch;
  return wqe.exceeds_depth_of == epoch;
}

// Whether the receiver is not ready. Of a send the first packet takes the receive, before its
// length is checked; of a write with immediate the last one (rxe_receiver() of Linux, rxe_resp.c).
bool lacks_receive(const QueuePair& qp, const Wqe& wqe, bool too_long) {
  if (!wqe.consumes_receive() || (too_long && !wqe.sends())) return false;
  return qp.remote().rq_head.load() == qp.remote().rq_tail.load(std::memory_order_acquire);
}

// Looks up the memory of the oldest receive.
TransferResult gather_receive(QueuePair& qp, const Wqe& wqe, Transfer& transfer, bool alone) {
  const RecvWqe& recv = oldest_receive(qp.peer(), qp.remote());
  for (uint32_t i = 0; i < recv.num_sge && i < kMaxSge; ++i) {
    if (recv.sge[i].length == 0) continue;
    uint64_t address = 0;
    SharedMr* mr = qp.peer().acquire(recv.sge[i], qp.remote().pd, IBV_ACCESS_LOCAL_WRITE, &address);
    if (mr == nullptr) {
      if (!alone) return kNeedsExclusive;
      return fail_receive(qp, wqe, transfer, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    }
    transfer.hold(mr);
    transfer.remote.add(address, recv.sge[i].length, mr->gpu);
  }
  if (transfer.remote.bytes < transfer.local.bytes) {
    if (!alone) return kNeedsExclusive;
    if (!qp.reliable()) return {TransferResult::kNoAnswer};
    return fail_receive(qp, wqe, transfer, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  }
  transfer.remote.truncate(transfer.local.bytes);
  return {};
}

// Looks up the memory that the rkey names.
TransferResult gather_rdma(QueuePair& qp, const Wqe& wqe, Transfer& transfer, bool alone) {
  uint32_t access = wqe.atomic()    ? IBV_ACCESS_REMOTE_ATOMIC
                    : wqe.fetches() ? IBV_ACCESS_REMOTE_READ
                                    : IBV_ACCESS_REMOTE_WRITE;
  bool misaligned = wqe.atomic() && wqe.remote_address % 8 != 0;
  if ((qp.remote().access & access) == 0 || misaligned) {
    return alone ? refuse(qp) : kNeedsExclusive;
  }
  if (transfer.local.bytes == 0) return {};
  ibv_sge range = {wqe.remote_address, static_cast<uint32_t>(transfer.local.bytes), wqe.rkey};
  uint64_t address = 0;
  SharedMr* mr = qp.peer().acquire(range, qp.remote().pd, access, &address);
  if (mr == nullptr) {
    if (!alone) return kNeedsExclusive;
    if (!qp.reliable()) return {TransferResult::kNoAnswer};
    qp.fail_remote(IBV_EVENT_QP_ACCESS_ERR);
    return finished(IBV_WC_REM_ACCESS_ERR);
  }
  transfer.hold(mr);
  transfer.remote.add(address, range.length, mr->gpu);
  return {};
}

// Carries out an RDMA atomic. It is atomic with respect to every other one on the memory of that
// process (IBV_ATOMIC_HCA), not to its CPU.
CopyResult fetch_and_update(QueuePair& qp, const Wqe& wqe, const Transfer& transfer) {
  uint64_t old_value = 0;
  SegmentList word;
  word.add(reinterpret_cast<uint64_t>(&old_value), sizeof old_value, -1);
  SharedLock lock(qp.peer().arena().header().atomics);
  CopyResult result = read_host(qp.peer(), word, transfer.remote);
  if (result != CopyResult::kDone) return result;
  uint64_t new_value = old_value;
  if (wqe.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) new_value += wqe.compare_add;
  if (wqe.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && old_value == wqe.compare_add) {
    new_value = wqe.swap;
  }
  SegmentList update;
  update.add(reinterpret_cast<uint64_t>(&new_value), sizeof new_value, -1);
  result = write_host(qp.peer(), update, transfer.remote);
  if (result == CopyResult::kDone) write_host(qp.process().self(), word, transfer.local);
  return result;
}

CopyResult copy_now(QueuePair& qp, const Wqe& wqe, const Transfer& transfer) {
  if (wqe.atomic()) return fetch_and_update(qp, wqe, transfer);
  if (wqe.fetches()) return read_host(qp.peer(), transfer.local, transfer.remote);
  return write_host(qp.peer(), transfer.local, transfer.remote);
}

TransferResult complete_receive(QueuePair& qp, const Wqe& wqe, const Transfer& transfer) {
  Cqe entry = receive_completion(qp, wqe, transfer);
  pop_receive(qp.remote());
  bool solicited = (wqe.flags & IBV_SEND_SOLICITED) != 0;
  if (push_completion(qp.process(), qp.peer(), qp.remote().recv_cq, entry, solicited)) return {};
  qp.fail_remote(IBV_EVENT_QP_FATAL);
  return finished(IBV_WC_REM_OP_ERR);
}

// Completes the receive with an error that a fault configures. Where the responder sends no NAK,
// its QP has stopped and answers nothing.
TransferResult fail_receive_as_configured(QueuePair& qp, const Wqe& wqe, const Transfer& transfer,
                                          ibv_wc_status theirs) {
  ibv_wc_status ours = answer_to_failed_receive(theirs);
  TransferResult result = fail_receive(qp, wqe, transfer, theirs, ours);
  return ours == IBV_WC_SUCCESS ? TransferResult{TransferResult::kNoAnswer} : result;
}

// Goes on with a request whose bytes have been copied, through the moments at which faults happen.
// The remote QP's mutex is held.
TransferResult complete_in_steps(QueuePair& qp, Wqe& wqe, const Transfer& transfer) {
  Interruption arrived = reach(qp, wqe, Moment::kArrived, true);
  if (arrived.receive_status != IBV_WC_SUCCESS) {
    return fail_receive_as_configured(qp, wqe, transfer, arrived.receive_status);
  }
  // A responder answers a repeated atomic from memory, and does not carry it out again
  // (IBTA 9.4.5).
  const bool repeated = arrived.cut && arrived.status == IBV_WC_SUCCESS;
  if (repeated && !wqe.atomic()) return {TransferResult::kNoAnswer};
  if (arrived.cut && !repeated) return finished(arrived.status);
  TransferResult result =
      wqe.consumes_receive() ? complete_receive(qp, wqe, transfer) : TransferResult{};
  if (!result.succeeded()) return result;
  qp.count_accepted(transfer.local.bytes);
  if (repeated) return {TransferResult::kUnacknowledged};
  Interruption received = reach(qp, wqe, Moment::kReceived, true);
  if (!received.cut) return result;
  if (received.status != IBV_WC_SUCCESS) return finished(received.status);
  return {TransferResult::kUnacknowledged};
}

// Ends a request whose bytes have been copied. The remote QP's mutex is held.
TransferResult complete(QueuePair& qp, Wqe& wqe, const Transfer& transfer) {
  if (qp.watch() == Watch::kEvents) return complete_in_steps(qp, wqe, transfer);
  TransferResult result =
      wqe.consumes_receive() ? complete_receive(qp, wqe, transfer) : TransferResult{};
  if (result.succeeded()) qp.count_accepted(transfer.local.bytes);
  return result;
}

TransferResult deliver(QueuePair& qp, Wqe& wqe, Transfer& transfer, bool alone) {
  if (!qp.connected() || !qp.peer().alive()) return {TransferResult::kNoAnswer};
  SharedLock lock(qp.remote().mutex);
  if (!qp.remote_answers()) return {TransferResult::kNoAnswer};
  if (qp.packets_behind() != 0) {
    return alone ? answer_repetition(qp, wqe, transfer.local.bytes) : kNeedsExclusive;
  }
  if (exceeds_read_depth(qp, wqe)) return alone ? refuse(qp) : kNeedsExclusive;
  const bool too_long = exceeds_smaller_mtu(qp, transfer.local.bytes);
  if (lacks_receive(qp, wqe, too_long)) return {TransferResult::kReceiverNotReady};
  if (too_long && !wqe.fetches()) return alone ? refuse(qp) : kNeedsExclusive;
  if (qp.watch() == Watch::kEvents && wqe.receive_fault != IBV_WC_SUCCESS) {
    return fail_receive_as_configured(qp, wqe, transfer, wqe.receive_fault);
  }
  transfer.remote.clear();
  TransferResult gathered = wqe.sends() ? gather_receive(qp, wqe, transfer, alone)
                                        : gather_rdma(qp, wqe, transfer, alone);
  if (!gathered.succeeded()) return gathered;
  // The responder knows only its own MTU. The requester finds that the packets are too long or
  // short.
  if (too_long) return alone ? finished(IBV_WC_BAD_RESP_ERR) : kNeedsExclusive;
  if (needs_async(qp, transfer)) {
    TransferResult result = start_async(qp, wqe, transfer, alone);
    if (result.kind == TransferResult::kInProgress && wqe.consumes_receive()) {
      transfer.receive = receive_completion(qp, wqe, transfer);
      transfer.has_receive = true;
      take_receive(qp.remote());
    }
    return result;
  }
  if (!alone) return kNeedsExclusive;
  switch (copy_now(qp, wqe, transfer)) {
    case CopyResult::kDone:
      return complete(qp, wqe, transfer);
    case CopyResult::kGone:
      return {TransferResult::kNoAnswer};
    case CopyResult::kFault:
    case CopyResult::kForbidden:
      break;
  }
  return finished(IBV_WC_REM_OP_ERR);
}

}  // namespace

TransferResult finish_in_steps(QueuePair& qp, Wqe& wqe, Transfer& transfer) {
  TransferResult result = {TransferResult::kNoAnswer};
  SharedLock lock(qp.remote().mutex);
  uint32_t state = qp.remote().state.load();
  if (qp.remote().live.load() != 0 && state != IBV_QPS_ERR && state != IBV_QPS_RESET) {
    if (transfer.has_receive) {
      transfer.has_receive = false;
      put_back(qp.remote(), 1);
    }
    result = complete(qp, wqe, transfer);
  }
  lock.unlock();
  complete_transfer(qp, transfer, false);
  return result;
}

TransferResult start_transfer(QueuePair& qp, Wqe& wqe, Transfer& transfer, bool alone) {
  TransferResult result = {TransferResult::kNoAnswer};
  if (!gather_local(qp, wqe, transfer)) {
    result = finished(IBV_WC_LOC_PROT_ERR);
  } else if (transfer.local.bytes > qp.port().max_msg_sz ||
             (wqe.atomic() && transfer.local.bytes != 8)) {
    result = finished(IBV_WC_LOC_LEN_ERR);
  } else if (wqe.fetches() && qp.reads_in_progress() >= qp.attributes().max_rd_atomic) {
    // It waits for earlier ones, with a depth of 0 for ever (check_init_depth() of rxe_req.c).
    result = kNeedsExclusive;
  } else if (qp.port().state.load(std::memory_order_relaxed) == IBV_PORT_ACTIVE) {
    result = deliver(qp, wqe, transfer, alone);
  }
  if (result.kind != TransferResult::kInProgress) transfer.release_all();
  return result;
}

}  // namespace softhca
