#include "softhca/datapath/transfer.h"

#include <cstring>

#include "softhca/datapath/async_transfer.h"
#include "softhca/datapath/host_copy.h"
#include "softhca/fabric/event_queue.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

constexpr uint64_t kMaxMessage = 1ull << 30;

Verdict finished(ibv_wc_status status) { return {Verdict::kFinished, status}; }

bool gather_local(const Qp& qp, const Wqe& wqe, Flight& flight) {
  flight.local.clear();
  if (wqe.inlined()) {
    flight.local.add(reinterpret_cast<uint64_t>(wqe.inline_data), wqe.inline_bytes, -1);
    return true;
  }
  const uint32_t access = wqe.fetches() ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (uint32_t i = 0; i < wqe.num_sge; ++i) {
    if (wqe.sge[i].length == 0) continue;
    uint64_t address = 0;
    SharedMr* mr = qp.process->self().acquire(wqe.sge[i], qp.shared->pd, access, &address);
    if (mr == nullptr) return false;
    flight.hold(mr);
    flight.local.add(address, wqe.sge[i].length, mr->gpu);
  }
  return true;
}

// A port of `owner` that is up and has the address which `sender` sends to.
bool reaches(const SharedQp& sender, const Peer& owner, const SharedQp& receiver) {
  const SharedPort& port = *owner.port(receiver.device, receiver.port);
  if (sender.global == 0) return sender.dlid == port.lid;
  for (uint32_t i = 0; i < port.gid_count; ++i) {
    if (memcmp(&port.gids[i], &sender.dgid, sizeof(ibv_gid)) == 0) return true;
  }
  return false;
}

// The remote QP takes packets of this one. Its mutex is held.
bool answers(Qp& qp) {
  const SharedQp& remote = *qp.remote;
  uint32_t state = remote.state.load(std::memory_order_relaxed);
  if (remote.live.load() == 0 || (state != IBV_QPS_RTR && state != IBV_QPS_RTS &&
                                  state != IBV_QPS_SQD && state != IBV_QPS_SQE)) {
    return false;
  }
  if (qp.peer->port(remote.device, remote.port)->state.load() != IBV_PORT_ACTIVE) return false;
  uint32_t epoch = remote.epoch.load(std::memory_order_relaxed);
  uint32_t own_epoch = qp.shared->epoch.load(std::memory_order_relaxed);
  if (qp.checked_epoch == epoch && qp.checked_own_epoch == own_epoch) return true;
  if (remote.qpn != qp.shared->dest_qpn || remote.dest_qpn != qp.shared->qpn ||
      !reaches(*qp.shared, *qp.peer, remote) || !reaches(remote, qp.process->self(), *qp.shared)) {
    return false;
  }
  qp.checked_epoch = epoch;
  qp.checked_own_epoch = own_epoch;
  return true;
}

// Puts the remote QP in error, as a responder that sends a NAK. Its mutex is held.
void fail_remote(Qp& qp, int event) {
  SharedQp& remote = *qp.remote;
  remote.state.store(IBV_QPS_ERR);
  flush_receives(*qp.process, *qp.peer, remote);
  if (event >= 0) {
    post_event(*qp.process, *qp.peer, remote.async_queue,
               {static_cast<uint32_t>(event), qpn_index(remote.qpn)});
  }
}

const RecvWqe& oldest_receive(const Qp& qp) {
  const SharedQp& remote = *qp.remote;
  uint64_t head = remote.rq_head.load(std::memory_order_relaxed);
  return *qp.peer->arena().at<RecvWqe>(remote.rq +
                                       (head & (remote.rq_entries - 1)) * remote.rq_stride);
}

void pop_receive(SharedQp& remote) {
  remote.rq_head.store(remote.rq_head.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
}

Cqe receive_completion(const Qp& qp, const Wqe& wqe, const Flight& flight) {
  Cqe entry = {};
  entry.wr_id = oldest_receive(qp).wr_id;
  entry.opcode = wqe.sends() ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  entry.byte_len = static_cast<uint32_t>(flight.local.bytes);
  entry.imm = wqe.with_imm() ? wqe.imm : 0;
  entry.wc_flags = wqe.with_imm() ? IBV_WC_WITH_IMM : 0;
  entry.qp_num = qp.remote->qpn;
  entry.src_qp = qp.shared->qpn;
  entry.slid = qp.process->port(qp.shared->device, qp.shared->port).lid;
  entry.sl = qp.shared->sl;
  return entry;
}

// Consumes the receive with an error and stops the remote QP.
Verdict fail_receive(Qp& qp, const Wqe& wqe, const Flight& flight, ibv_wc_status theirs,
                     ibv_wc_status ours) {
  Cqe entry = receive_completion(qp, wqe, flight);
  entry.status = theirs;
  entry.byte_len = 0;
  pop_receive(*qp.remote);
  push_completion(*qp.process, *qp.peer, qp.remote->recv_cq, entry, true);
  fail_remote(qp, -1);
  return finished(ours);
}

Verdict gather_receive(Qp& qp, const Wqe& wqe, Flight& flight) {
  const RecvWqe& recv = oldest_receive(qp);
  for (uint32_t i = 0; i < recv.num_sge && i < kMaxSge; ++i) {
    if (recv.sge[i].length == 0) continue;
    uint64_t address = 0;
    SharedMr* mr = qp.peer->acquire(recv.sge[i], qp.remote->pd, IBV_ACCESS_LOCAL_WRITE, &address);
    if (mr == nullptr) {
      return fail_receive(qp, wqe, flight, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    }
    flight.hold(mr);
    flight.remote.add(address, recv.sge[i].length, mr->gpu);
  }
  if (flight.remote.bytes < flight.local.bytes) {
    return fail_receive(qp, wqe, flight, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  }
  flight.remote.truncate(flight.local.bytes);
  return {};
}

Verdict gather_rdma(Qp& qp, const Wqe& wqe, Flight& flight) {
  uint32_t access = wqe.atomic()    ? IBV_ACCESS_REMOTE_ATOMIC
                    : wqe.fetches() ? IBV_ACCESS_REMOTE_READ
                                    : IBV_ACCESS_REMOTE_WRITE;
  bool misaligned = wqe.atomic() && wqe.remote_address % 8 != 0;
  if ((qp.remote->access & access) == 0 || misaligned) {
    fail_remote(qp, IBV_EVENT_QP_REQ_ERR);
    return finished(IBV_WC_REM_INV_REQ_ERR);
  }
  if (flight.local.bytes == 0) return {};
  ibv_sge range = {wqe.remote_address, static_cast<uint32_t>(flight.local.bytes), wqe.rkey};
  uint64_t address = 0;
  SharedMr* mr = qp.peer->acquire(range, qp.remote->pd, access, &address);
  if (mr == nullptr) {
    fail_remote(qp, IBV_EVENT_QP_ACCESS_ERR);
    return finished(IBV_WC_REM_ACCESS_ERR);
  }
  flight.hold(mr);
  flight.remote.add(address, range.length, mr->gpu);
  return {};
}

// Atomic with respect to every other RDMA atomic on that process's memory.
CopyResult fetch_and_update(Qp& qp, const Wqe& wqe, const Flight& flight) {
  uint64_t old_value = 0;
  SegmentList word;
  word.add(reinterpret_cast<uint64_t>(&old_value), sizeof old_value, -1);
  SharedLock lock(qp.peer->arena().header().atomics);
  CopyResult result = read_host(*qp.peer, word, flight.remote);
  if (result != CopyResult::kDone) return result;
  uint64_t new_value = old_value;
  if (wqe.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) new_value += wqe.compare_add;
  if (wqe.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && old_value == wqe.compare_add) {
    new_value = wqe.swap;
  }
  SegmentList update;
  update.add(reinterpret_cast<uint64_t>(&new_value), sizeof new_value, -1);
  result = write_host(*qp.peer, update, flight.remote);
  if (result == CopyResult::kDone) write_host(qp.process->self(), word, flight.local);
  return result;
}

CopyResult copy_now(Qp& qp, const Wqe& wqe, const Flight& flight) {
  if (wqe.atomic()) return fetch_and_update(qp, wqe, flight);
  if (wqe.fetches()) return read_host(*qp.peer, flight.local, flight.remote);
  return write_host(*qp.peer, flight.local, flight.remote);
}

Verdict complete_receive(Qp& qp, const Wqe& wqe, const Flight& flight) {
  Cqe entry = receive_completion(qp, wqe, flight);
  pop_receive(*qp.remote);
  bool solicited = (wqe.flags & IBV_SEND_SOLICITED) != 0;
  if (push_completion(*qp.process, *qp.peer, qp.remote->recv_cq, entry, solicited)) return {};
  fail_remote(qp, IBV_EVENT_QP_FATAL);
  return finished(IBV_WC_REM_OP_ERR);
}

Verdict deliver(Qp& qp, Wqe& wqe, Flight& flight, bool alone) {
  if (qp.remote == nullptr || !qp.peer->alive()) return {Verdict::kNoAnswer};
  SharedLock lock(qp.remote->mutex);
  if (!answers(qp)) return {Verdict::kNoAnswer};
  if (wqe.consumes_receive() &&
      qp.remote->rq_head.load() == qp.remote->rq_tail.load(std::memory_order_acquire)) {
    return {Verdict::kReceiverNotReady};
  }
  flight.remote.clear();
  Verdict gathered = wqe.sends() ? gather_receive(qp, wqe, flight) : gather_rdma(qp, wqe, flight);
  if (gathered.status != IBV_WC_SUCCESS) return gathered;
  if (must_fly(qp, flight)) {
    Verdict verdict = start_flight(qp, wqe, flight, alone);
    if (verdict.kind == Verdict::kFlying && wqe.consumes_receive()) {
      flight.recv = receive_completion(qp, wqe, flight);
      flight.has_recv = true;
      pop_receive(*qp.remote);
    }
    return verdict;
  }
  if (!alone) return {Verdict::kWaitAlone};
  switch (copy_now(qp, wqe, flight)) {
    case CopyResult::kDone:
      return wqe.consumes_receive() ? complete_receive(qp, wqe, flight) : Verdict{};
    case CopyResult::kGone:
      return {Verdict::kNoAnswer};
    case CopyResult::kFault:
    case CopyResult::kForbidden:
      break;
  }
  return finished(IBV_WC_REM_OP_ERR);
}

}  // namespace

Verdict start_transfer(Qp& qp, Wqe& wqe, Flight& flight, bool alone) {
  SharedPort& port = qp.process->port(qp.shared->device, qp.shared->port);
  Verdict verdict = {Verdict::kNoAnswer};
  if (!gather_local(qp, wqe, flight)) {
    verdict = finished(IBV_WC_LOC_PROT_ERR);
  } else if (flight.local.bytes > kMaxMessage || (wqe.atomic() && flight.local.bytes != 8)) {
    verdict = finished(IBV_WC_LOC_LEN_ERR);
  } else if (port.state.load(std::memory_order_relaxed) == IBV_PORT_ACTIVE) {
    verdict = deliver(qp, wqe, flight, alone);
  }
  if (verdict.kind != Verdict::kFlying) flight.drop_refs();
  return verdict;
}

}  // namespace softhca
