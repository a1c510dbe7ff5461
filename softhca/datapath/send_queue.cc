#include "softhca/datapath/send_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "softhca/datapath/async_transfer.h"
#include "softhca/datapath/completions.h"
#include "softhca/datapath/fault_events.h"
#include "softhca/datapath/transfer.h"
#include "softhca/model/clock.h"

namespace softhca {

namespace {

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

const char* request_name(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return "RDMA_WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "RDMA_WRITE_WITH_IMM";
    case IBV_WR_RDMA_READ:
      return "RDMA_READ";
    case IBV_WR_SEND:
      return "SEND";
    case IBV_WR_SEND_WITH_IMM:
      return "SEND_WITH_IMM";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "ATOMIC_CMP_AND_SWP";
    default:
      return "ATOMIC_FETCH_AND_ADD";
  }
}

// IBTA table 45, "Encoding for RNR NAK Timer Field", in units of 10 microseconds.
constexpr uint32_t kRnrTimer[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                    16,    24,   32,   48,    64,    96,    128,   192,
                                    256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                    4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

// How often a request that was delivered asks for its acknowledgement again.
constexpr uint64_t kResendNs = 1'000'000;

// How often a QP in ERROR looks whether transfers into it have ended.
constexpr uint64_t kInboundNs = 1'000'000;

// A request that has failed, but is not retired: nothing may start after it. One that only lacks
// its acknowledgement does not hold up those behind it.
bool failed(const Wqe& wqe) {
  return wqe.completed && wqe.outcome != IBV_WC_SUCCESS && wqe.ack_at == 0;
}

void copy_operands(const ibv_send_wr& wr, Wqe* wqe) {
  wqe->wr_id = wr.wr_id;
  wqe->opcode = wr.opcode;
  wqe->flags = wr.send_flags;
  wqe->imm = wr.imm_data;
  if (wqe->atomic()) {
    wqe->remote_address = wr.wr.atomic.remote_addr;
    wqe->rkey = wr.wr.atomic.rkey;
    wqe->compare_add = wr.wr.atomic.compare_add;
    wqe->swap = wr.wr.atomic.swap;
  } else {
    wqe->remote_address = wr.wr.rdma.remote_addr;
    wqe->rkey = wr.wr.rdma.rkey;
  }
}

}  // namespace

SendQueue::SendQueue(QueuePair& qp, Faults& faults)
    : qp_(qp),
      faults_(faults),
      depth_(qp.config().cap.max_send_wr),
      ring_(std::bit_ceil(std::max(depth_, 1u))),
      sges_(ring_.size() * qp.config().cap.max_send_sge),
      inline_(ring_.size() * qp.config().cap.max_inline_data) {
  const ibv_qp_cap& cap = qp.config().cap;
  for (size_t i = 0; i < ring_.size(); ++i) {
    ring_[i].sge = sges_.data() + i * cap.max_send_sge;
    ring_[i].inline_data = inline_.data() + i * cap.max_inline_data;
  }
}

bool SendQueue::supports(ibv_wr_opcode opcode, ibv_qp_type type) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return true;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return type == IBV_QPT_RC;
    default:
      return false;
  }
}

void SendQueue::commit(uint32_t count) {
  if (qp_.process().counters() != nullptr) count_posted(count);
  if (qp_.link().modelled()) {
    const uint64_t now = now_ns();
    for (uint64_t position = tail_; position != tail_ + count; ++position) {
      at(position).posted_at = now;
    }
  }
  tail_ += count;
  claimed_ = 0;
}

Wqe* SendQueue::claim() {
  uint64_t position = tail_ + claimed_;
  if (position - qp_.sends_polled() >= depth_) return nullptr;
  ++claimed_;
  Wqe& wqe = at(position);
  wqe.reset();
  wqe.rnr_left = qp_.attributes().rnr_retry;
  return &wqe;
}

int SendQueue::post(const ibv_send_wr& wr) {
  const ibv_qp_cap& cap = qp_.config().cap;
  if (!supports(wr.opcode, qp_.config().type)) return EINVAL;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > cap.max_send_sge) return EINVAL;
  Wqe* wqe = claim();
  if (wqe == nullptr) return ENOMEM;
  copy_operands(wr, wqe);
  if (wqe->inlined()) {
    for (int i = 0; i < wr.num_sge; ++i) {
      const ibv_sge& sge = wr.sg_list[i];
      if (wqe->fetches() || sge.length > cap.max_inline_data - wqe->inline_bytes) {
        abandon();
        return EINVAL;
      }
      memcpy(wqe->inline_data + wqe->inline_bytes, reinterpret_cast<const void*>(sge.addr),
             sge.length);
      wqe->inline_bytes += sge.length;
    }
  } else {
    wqe->num_sge = static_cast<uint32_t>(wr.num_sge);
    std::copy_n(wr.sg_list, wr.num_sge, wqe->sge);
  }
  commit(1);
  return 0;
}

void SendQueue::clear() {
  for (; head_ != tail_; ++head_) {
    Wqe& wqe = at(head_);
    if (wqe.started) abort_transfer(qp_, *wqe.transfer);
    wqe.reset();
  }
  next_ = settled_ = head_;
  claimed_ = 0;
  qp_.set_sends_polled(head_);
}

uint64_t SendQueue::retire() {
  for (uint64_t position = settled_; position != next_; ++position) {
    Wqe& wqe = at(position);
    if (wqe.completed) continue;
    TransferResult result = advance_transfer(qp_, *wqe.transfer);
    wqe.completed = result.kind == TransferResult::kFinished;
    wqe.outcome = result.status;
    if (wqe.completed && result.status == IBV_WC_SUCCESS) await_ack(wqe);
  }
  while (settled_ != next_ && at(settled_).completed) {
    if (at(settled_).started && !settle(at(settled_))) break;
    ++settled_;
  }
  while (head_ != settled_) {
    Wqe& wqe = at(head_);
    bool stopped = qp_.state() == IBV_QPS_ERR;
    if (!stopped && wqe.resent && acknowledged_late(wqe)) wqe.outcome = IBV_WC_SUCCESS;
    if (!stopped && wqe.ack_at != 0 && now_ns() < wqe.ack_at) {
      return wqe.resent ? std::min(wqe.ack_at, now_ns() + kResendNs) : wqe.ack_at;
    }
    // A request after an error is flushed, although its bytes have arrived.
    bool flushed = stopped && delivered(wqe);
    ++head_;
    finish(wqe, flushed ? IBV_WC_WR_FLUSH_ERR : wqe.outcome);
  }
  return 0;
}

bool SendQueue::settle(Wqe& wqe) {
  wqe.started = false;
  if (qp_.watch() != Watch::kEvents || !delivered(wqe)) {
    if (complete_transfer(qp_, *wqe.transfer, delivered(wqe)) || !delivered(wqe)) return true;
    wqe.ack_delay = UINT64_MAX;  // the remote QP has stopped, and answers nothing
    await_ack(wqe);
    return true;
  }
  TransferResult result = finish_in_steps(qp_, wqe, *wqe.transfer);
  faults_.serve_events();
  switch (result.kind) {
    case TransferResult::kNoAnswer:
      // It is the only one in progress.
      wqe.completed = false;
      wqe.ack_at = wqe.ack_delay = 0;
      next_ = settled_;
      return false;
    case TransferResult::kUnacknowledged:
      lose_ack(wqe);
      return true;
    default:
      if (result.status != IBV_WC_SUCCESS) wqe.outcome = result.status;
      if (result.status != IBV_WC_SUCCESS) wqe.ack_at = 0;
      return true;
  }
}

// Returns true for a completed request whose bytes have arrived, acknowledged or not.
bool SendQueue::delivered(const Wqe& wqe) {
  return wqe.outcome == IBV_WC_SUCCESS || wqe.ack_at != 0;
}

// Asks for the fate of the acknowledgement of a request that is about to be delivered. A fetched
// answer is the acknowledgement itself.
void SendQueue::choose_ack(Wqe& wqe) {
  if (qp_.watch() == Watch::kNothing || !qp_.reliable() || wqe.fetches()) return;
  wqe.ack_delay = faults_.ack_delay_ns(qp_.shared().device, qp_.shared().port,
                                       {wqe.wr_id, wqe.opcode, Moment::kReceived});
}

// Lets a request that was delivered wait for its acknowledgement. One that comes after the
// requester has given up is lost, too.
void SendQueue::await_ack(Wqe& wqe) {
  if (wqe.ack_delay == 0) return;
  uint64_t wait = std::min(wqe.ack_delay, qp_.patience_ns());
  if (wait != wqe.ack_delay || wait == UINT64_MAX) wqe.outcome = IBV_WC_RETRY_EXC_ERR;
  wqe.ack_at = wait == UINT64_MAX ? UINT64_MAX : now_ns() + wait;
}

void SendQueue::lose_ack(Wqe& wqe) {
  wqe.ack_delay = UINT64_MAX;
  wqe.resent = true;
  await_ack(wqe);
}

bool SendQueue::acknowledged_late(Wqe& wqe) {
  if (qp_.port().state.load() != IBV_PORT_ACTIVE || !qp_.peer_alive()) return false;
  SharedLock lock(qp_.remote().mutex);
  // The present number is that behind this request: none behind it has started, as both ends did
  // not reach each other.
  if (!qp_.remote_answers()) return false;
  wqe.ack_at = 0;
  return true;
}

void SendQueue::delay_at_random() {
  if (!qp_.link().reorders() || delayed_ == tail_) return;
  const uint64_t now = now_ns();
  for (; delayed_ != tail_; ++delayed_) at(delayed_).retry_at = now + qp_.link().random_delay();
}

Pending SendQueue::progress() {
  Pending pending;
  delay_at_random();
  uint64_t ack_at = retire();
  while (next_ != tail_) {
    Wqe& wqe = at(next_);
    ibv_qp_state state = qp_.state(std::memory_order_acquire);
    bool alone = settled_ == next_;
    if (state == IBV_QPS_ERR) {
      if (head_ != next_) break;
      finish_next(wqe, IBV_WC_WR_FLUSH_ERR);
      continue;
    }
    if (state == IBV_QPS_SQD || (wqe.exclusive && !alone)) break;
    if (head_ != next_ && failed(at(next_ - 1))) break;
    // The clock is read only where something depends on it.
    bool timed = wqe.retry_at != 0 || qp_.link().modelled();
    uint64_t now = timed ? now_ns() : 0;
    if (wqe.due == 0 && qp_.link().modelled()) {
      wqe.due = qp_.link().reserve(qp_.link_ends(wqe.fetches()), wqe.bytes(), wqe.posted_at, now);
    }
    uint64_t at_ns = std::max(wqe.retry_at, wqe.due);
    if (timed && now < at_ns) {
      pending.wake_at = at_ns;
      break;
    }
    if (start(wqe, now) == Step::kWait) {
      pending.wake_at = wqe.retry_at;
      break;
    }
  }
  pending.any = head_ != tail_;
  if (head_ == tail_ && qp_.state(std::memory_order_relaxed) == IBV_QPS_ERR &&
      qp_.shared().inbound.load(std::memory_order_acquire) != 0 &&
      !qp_.finish_flush(qp_.share_peer().get())) {
    return {.any = true, .wake_at = now_ns() + kInboundNs};
  }
  // Also where only the next retire() finds out until when an acknowledgement is awaited.
  pending.in_progress = settled_ != next_ || (ack_at == 0 && head_ != settled_);
  if (ack_at != 0) {
    pending.wake_at = pending.wake_at == 0 ? ack_at : std::min(pending.wake_at, ack_at);
  }
  return pending;
}

SendQueue::Step SendQueue::start(Wqe& wqe, uint64_t now) {
  bool alone = settled_ == next_;
  if (qp_.watch() == Watch::kEvents) {
    if (!alone) return wait_for_earlier(wqe);
    if (std::optional<ibv_wc_status> status = begin(wqe)) return finish_next(wqe, *status);
  }
  Transfer& transfer = wqe.transfer != nullptr ? *wqe.transfer : *scratch_;
  TransferResult result = loses_packet(wqe) ? TransferResult{TransferResult::kNoAnswer}
                                            : start_transfer(qp_, wqe, transfer, alone);
  if (qp_.watch() == Watch::kNothing) {
    if (alone && result.succeeded()) return finish_next(wqe, IBV_WC_SUCCESS);
  } else {
    faults_.serve_events();
  }
  switch (result.kind) {
    case TransferResult::kInProgress:
      if (wqe.transfer == nullptr) {
        // The first asynchronous request of this slot: from now on it has a Transfer of its own.
        wqe.transfer = std::exchange(scratch_, std::make_unique<Transfer>());
      }
      wqe.started = true;
      ++next_;
      choose_ack(wqe);
      count_moved(*wqe.transfer);
      return Step::kNext;
    case TransferResult::kNeedsExclusive:
      return wait_for_earlier(wqe);
    case TransferResult::kNoAnswer:
      if (!alone) return wait_for_earlier(wqe);
      return no_answer(wqe, now == 0 ? now_ns() : now);
    case TransferResult::kReceiverNotReady:
      if (!alone) return wait_for_earlier(wqe);
      return receiver_not_ready(wqe, now == 0 ? now_ns() : now);
    case TransferResult::kUnacknowledged:
      if (!qp_.reliable()) break;
      count_moved(transfer);
      finish_after_earlier(wqe, IBV_WC_SUCCESS);
      lose_ack(wqe);
      return Step::kNext;
    case TransferResult::kFinished:
      break;
  }
  if (!alone) return finish_after_earlier(wqe, result.status);
  if (result.status == IBV_WC_SUCCESS) choose_ack(wqe);
  if (result.status == IBV_WC_SUCCESS && wqe.ack_delay != 0) {
    count_moved(transfer);
    finish_after_earlier(wqe, result.status);
    await_ack(wqe);
    return Step::kNext;
  }
  finish_next(wqe, result.status);
  if (result.status == IBV_WC_SUCCESS) count_moved(transfer);
  return Step::kNext;
}

// Whether the largest packet of the request is lost, so that the responder never has all of it.
bool SendQueue::loses_packet(const Wqe& wqe) {
  const uint64_t packet = std::min<uint64_t>(wqe.bytes(), 128u << qp_.attributes().path_mtu);
  return faults_.loses_packet(qp_.shared().device, qp_.shared().port,
                              static_cast<uint32_t>(packet));
}

std::optional<ibv_wc_status> SendQueue::begin(Wqe& wqe) {
  constexpr uint32_t kBegun = 1u << static_cast<uint32_t>(Moment::kBegun);
  if ((wqe.reached & kBegun) != 0) return {};
  Interruption cut = reach(qp_, wqe, Moment::kBegun, false);
  faults_.serve_events();
  wqe.receive_fault = cut.receive_status;
  if (cut.status != IBV_WC_SUCCESS) return cut.status;
  if (qp_.state() == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
  return {};
}

SendQueue::Step SendQueue::wait_for_earlier(Wqe& wqe) {
  wqe.exclusive = true;
  return Step::kWait;
}

// Leaves it to retire() to report the request after those that are in progress.
SendQueue::Step SendQueue::finish_after_earlier(Wqe& wqe, ibv_wc_status status) {
  wqe.completed = true;
  wqe.outcome = status;
  if (settled_ == next_) ++settled_;
  ++next_;
  return Step::kNext;
}

void SendQueue::count_moved(const Transfer& transfer) {
  if (qp_.watch() == Watch::kNothing) return;
  faults_.moved(qp_.shared().device, qp_.shared().port, transfer.local.bytes);
}

void SendQueue::count_posted(uint32_t requests) {
  for (uint64_t position = tail_; position != tail_ + requests; ++position) {
    const Wqe& wqe = at(position);
    const bool signaled = qp_.config().signal_all || (wqe.flags & IBV_SEND_SIGNALED) != 0;
    qp_.process().counters()->add_request(
        qp_.shared().device, qp_.shared().port,
        {request_name(wqe.opcode), wqe.bytes(), wqe.num_sge, wqe.inlined(), signaled});
  }
}

SendQueue::Step SendQueue::no_answer(Wqe& wqe, uint64_t now) {
  if (!qp_.reliable()) return finish_next(wqe, IBV_WC_SUCCESS);
  uint64_t patience = qp_.patience_ns();
  if (patience != UINT64_MAX && wqe.deadline == 0) wqe.deadline = now + patience;
  if (wqe.deadline != 0 && now >= wqe.deadline) return finish_next(wqe, IBV_WC_RETRY_EXC_ERR);
  wqe.retry_at = now + std::clamp<uint64_t>(patience / 64, 50'000, 5'000'000);
  if (wqe.deadline != 0) wqe.retry_at = std::min(wqe.retry_at, wqe.deadline);
  return Step::kWait;
}

SendQueue::Step SendQueue::receiver_not_ready(Wqe& wqe, uint64_t now) {
  if (!qp_.reliable()) return finish_next(wqe, IBV_WC_SUCCESS);
  constexpr uint32_t kInfinite = 7;  // rnr_retry of ibv_modify_qp(3): retry without a limit
  if (qp_.attributes().rnr_retry != kInfinite && wqe.rnr_left-- == 0) {
    return finish_next(wqe, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  wqe.deadline = 0;
  wqe.retry_at = now + uint64_t{kRnrTimer[qp_.remote().min_rnr_timer & 31]} * 10'000;
  return Step::kWait;
}

// Finishes the request that would be started next, while nothing is in progress.
SendQueue::Step SendQueue::finish_next(Wqe& wqe, ibv_wc_status status) {
  if (head_ != next_) return finish_after_earlier(wqe, status);
  head_ = settled_ = ++next_;
  finish(wqe, status);
  return Step::kNext;
}

void SendQueue::finish(Wqe& wqe, ibv_wc_status status) {
  bool wanted = qp_.config().signal_all || (wqe.flags & IBV_SEND_SIGNALED) != 0;
  if (wanted || status != IBV_WC_SUCCESS) report(wqe, status);
  if (qp_.watch() != Watch::kEvents || status != IBV_WC_SUCCESS) return;
  reach(qp_, wqe, Moment::kAcknowledged, false);
  faults_.serve_events();
}

void SendQueue::report(const Wqe& wqe, ibv_wc_status status) {
  // The device has failed: nothing completes any more.
  if (status != IBV_WC_SUCCESS && qp_.shared().silent.load() != 0) return;
  Cqe entry = {};
  entry.wr_id = wqe.wr_id;
  entry.release = head_;
  entry.status = status;
  entry.opcode = completion_opcode(wqe.opcode);
  entry.qp_num = qp_.shared().qpn;
  entry.is_send = 1;
  if (wqe.fetches()) entry.byte_len = static_cast<uint32_t>(wqe.bytes());
  const Process& process = qp_.process();
  if (!push_completion(process, process.self(), qp_.config().send_cq, entry, false)) qp_.fail();
  // The receives are flushed after the completion that reports the error.
  if (status != IBV_WC_SUCCESS) qp_.enter_error();
}

}  // namespace softhca
