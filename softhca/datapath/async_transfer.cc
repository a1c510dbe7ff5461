#include "softhca/datapath/async_transfer.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "softhca/datapath/completions.h"
#include "softhca/datapath/receive_ring.h"
#include "softhca/gpu/copier.h"
#include "softhca/model/clock.h"

namespace softhca {

namespace {

// Transfers of one kind may be in progress together; others wait for each other, so that none
// overtakes an earlier one. A kind of zero or above is a GPU, whose copies on the QP's lane are in
// order by themselves.
constexpr int64_t kExclusive = -1;
constexpr int64_t kStagedToGpu = -2;

int64_t kind_of(const QueuePair& qp, const Wqe& wqe, const Transfer& transfer) {
  if (qp.peer().self()) return std::max(transfer.local.gpu, transfer.remote.gpu);
  return !wqe.fetches() && transfer.remote.gpu >= 0 ? kStagedToGpu : kExclusive;
}

// Puts all pieces into one lane. Finished with an error when the driver refuses one.
TransferResult start_lane_copies(QueuePair& qp, const Wqe& wqe, Transfer& transfer) {
  GpuCopier& copier = *GpuCopier::get();
  uint32_t lane = copier.lane(std::max(transfer.local.gpu, transfer.remote.gpu), qp.lane_hint());
  const SegmentList& to = wqe.fetches() ? transfer.local : transfer.remote;
  const SegmentList& from = wqe.fetches() ? transfer.remote : transfer.local;
  bool launched = true;
  for_each_piece(to, from, [&](void* dst, const void* src, uint64_t bytes) {
    if (!launched) return;
    gdr::Result<GpuTicket> ticket = copier.copy(lane, dst, src, bytes);
    launched = ticket.has_value();
    if (launched) {
      transfer.ticket = *ticket;
    } else {
      fprintf(stderr, "softhca: a copy of %zu bytes from %p to %p failed: %s\n",
              static_cast<size_t>(bytes), src, dst, ticket.error().text.c_str());
    }
  });
  transfer.polls = 0;
  if (!launched) return {TransferResult::kFinished, IBV_WC_LOC_QP_OP_ERR};
  return {TransferResult::kInProgress};
}

TransferResult start_staged(QueuePair& qp, const Wqe& wqe, Transfer& transfer) {
  if (!qp.process().staging().ensure()) return {TransferResult::kFinished, IBV_WC_LOC_QP_OP_ERR};
  if (transfer.staged_copy == nullptr) transfer.staged_copy = std::make_unique<StagedCopy>();
  transfer.staged_copy->begin(transfer.local, transfer.remote, wqe.fetches());
  transfer.staged = true;
  transfer.dead_since = 0;
  return {TransferResult::kInProgress};
}

TransferResult poll_lane_copies(Transfer& transfer) {
  GpuCopier& copier = *GpuCopier::get();
  if (copier.done(transfer.ticket)) return {};
  if (++transfer.polls % copier.kPollsPerFailureCheck == 0 &&
      copier.failure(transfer.ticket.lane)) {
    return {TransferResult::kFinished, IBV_WC_LOC_QP_OP_ERR};
  }
  return {TransferResult::kInProgress};
}

// A peer that ends in between is treated as one that does not answer: an error after the time that
// timeout and retry_cnt allow.
TransferResult poll_staged(QueuePair& qp, Transfer& transfer) {
  if (transfer.dead_since == 0) {
    StagedCopy::State state = transfer.staged_copy->advance(qp);
    if (state == StagedCopy::State::kBusy) return {TransferResult::kInProgress};
    if (state == StagedCopy::State::kDone) return {};
    if (qp.peer().alive()) return {TransferResult::kFinished, IBV_WC_REM_OP_ERR};
    transfer.dead_since = now_ns();
  }
  bool in_error = qp.state() == IBV_QPS_ERR;
  if (in_error || now_ns() - transfer.dead_since >= qp.patience_ns()) {
    return {TransferResult::kFinished, in_error ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR};
  }
  return {TransferResult::kInProgress};
}

}  // namespace

bool needs_async(const QueuePair& qp, const Transfer& transfer) {
  return transfer.remote.bytes != 0 &&
         (transfer.local.gpu >= 0 || transfer.remote.gpu >= 0 || !qp.peer().direct());
}

TransferResult start_async(QueuePair& qp, const Wqe& wqe, Transfer& transfer, bool alone) {
  if (wqe.atomic()) return {TransferResult::kFinished, IBV_WC_REM_OP_ERR};
  int64_t kind = kind_of(qp, wqe, transfer);
  if (!alone && (kind == kExclusive || kind != qp.async_kind()))
    return {TransferResult::kNeedsExclusive};
  transfer.staged = false;
  transfer.solicited = (wqe.flags & IBV_SEND_SOLICITED) != 0;
  TransferResult result =
      qp.peer().self() ? start_lane_copies(qp, wqe, transfer) : start_staged(qp, wqe, transfer);
  if (result.kind == TransferResult::kInProgress) {
    qp.set_async_kind(kind);
    transfer.is_read = wqe.fetches();
    if (transfer.is_read) qp.read_started();
    qp.remote().inbound.fetch_add(1);
  }
  return result;
}

TransferResult advance_transfer(QueuePair& qp, Transfer& transfer) {
  return transfer.staged ? poll_staged(qp, transfer) : poll_lane_copies(transfer);
}

bool complete_transfer(QueuePair& qp, Transfer& transfer, bool success) {
  SharedQp& remote = qp.remote();
  SharedLock lock(remote.mutex);
  const bool exists = remote.live.load() != 0 && remote.state.load() != IBV_QPS_RESET;
  if (transfer.has_receive) {
    success = success && exists && remote.state.load() != IBV_QPS_ERR;
    if (!success) transfer.receive.status = IBV_WC_WR_FLUSH_ERR;
    if (exists) complete_taken(remote);
    if (exists && !push_completion(qp.process(), qp.peer(), remote.recv_cq, transfer.receive,
                                   transfer.solicited)) {
      qp.fail_remote(IBV_EVENT_QP_FATAL);
      success = false;
    }
    transfer.has_receive = false;
  }
  transfer.release_all();
  if (transfer.is_read) qp.read_ended();
  if (success) qp.count_accepted(transfer.local.bytes);
  remote.inbound.fetch_sub(1, std::memory_order_release);
  // Those that were posted behind it have waited for it.
  if (exists && remote.state.load() == IBV_QPS_ERR) flush_receives(qp.process(), qp.peer(), remote);
  return success;
}

void abort_transfer(QueuePair& qp, Transfer& transfer) {
  if (transfer.staged) {
    transfer.staged_copy->abort(qp);
  } else {
    while (poll_lane_copies(transfer).kind == TransferResult::kInProgress)
      std::this_thread::yield();
  }
  if (transfer.has_receive) {
    SharedQp& remote = qp.remote();
    SharedLock lock(remote.mutex);
    if (remote.live.load() != 0 && remote.state.load() != IBV_QPS_RESET) put_back(remote, 1);
    transfer.has_receive = false;
  }
  complete_transfer(qp, transfer, false);
}

}  // namespace softhca
