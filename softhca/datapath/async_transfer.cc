#include "softhca/datapath/async_transfer.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "softhca/datapath/host_copy.h"
#include "softhca/datapath/staged_copy.h"
#include "softhca/fabric/event_queue.h"
#include "softhca/fabric/staging_area.h"
#include "softhca/model/clock.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

constexpr uint32_t kFailureCheck = 1 << 14;

// Transfers of one kind (zero and above: of one lane, in order by themselves) may be under way
// together; all others wait for each other.
constexpr int64_t kAlone = -1;
constexpr int64_t kBouncesToGpu = -2;

int64_t kind_of(const Qp& qp, const Wqe& wqe, const Flight& flight) {
  if (qp.peer->self()) return std::max(flight.local.gpu, flight.remote.gpu);
  return !wqe.fetches() && flight.remote.gpu >= 0 ? kBouncesToGpu : kAlone;
}

// All pieces into one lane. Finished with an error when the driver refused.
Verdict launch_copies(Qp& qp, const Wqe& wqe, Flight& flight) {
  GpuCopier& copier = *GpuCopier::get();
  uint32_t lane = copier.lane(std::max(flight.local.gpu, flight.remote.gpu), qp.lane_hint());
  const SegmentList& to = wqe.fetches() ? flight.local : flight.remote;
  const SegmentList& from = wqe.fetches() ? flight.remote : flight.local;
  bool launched = true;
  for_each_piece(to, from, [&](void* dst, const void* src, uint64_t bytes) {
    if (!launched) return;
    gdr::Result<GpuTicket> ticket = copier.copy(lane, dst, src, bytes);
    launched = ticket.has_value();
    if (launched) {
      flight.ticket = *ticket;
    } else {
      fprintf(stderr, "softhca: a copy of %zu bytes from %p to %p failed: %s\n",
              static_cast<size_t>(bytes), src, dst, ticket.error().text.c_str());
    }
  });
  flight.polls = 0;
  if (!launched) return {Verdict::kFinished, IBV_WC_LOC_QP_OP_ERR};
  return {Verdict::kFlying};
}

Verdict launch_bounce(Qp& qp, const Wqe& wqe, Flight& flight) {
  if (!qp.process->staging().ensure()) return {Verdict::kFinished, IBV_WC_LOC_QP_OP_ERR};
  if (flight.bounce == nullptr) flight.bounce = std::make_unique<Bounce>();
  flight.bounce->begin(flight.local, flight.remote, wqe.fetches());
  flight.bouncing = true;
  flight.dead_since = 0;
  return {Verdict::kFlying};
}

Verdict poll_copies(Flight& flight) {
  GpuCopier& copier = *GpuCopier::get();
  if (copier.done(flight.ticket)) return {};
  if (++flight.polls % kFailureCheck == 0 && copier.failure(flight.ticket.lane)) {
    return {Verdict::kFinished, IBV_WC_LOC_QP_OP_ERR};
  }
  return {Verdict::kFlying};
}

// A peer that dies in between is one that does not answer: an error after the usual time.
Verdict poll_bounce(Qp& qp, Flight& flight) {
  if (flight.dead_since == 0) {
    Bounce::State state = flight.bounce->advance(qp);
    if (state == Bounce::State::kBusy) return {Verdict::kFlying};
    if (state == Bounce::State::kDone) return {};
    if (qp.peer->alive()) return {Verdict::kFinished, IBV_WC_REM_OP_ERR};
    flight.dead_since = now_ns();
  }
  bool in_error = qp.shared->state.load() == IBV_QPS_ERR;
  if (in_error || now_ns() - flight.dead_since >= qp.patience_ns()) {
    return {Verdict::kFinished, in_error ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR};
  }
  return {Verdict::kFlying};
}

}  // namespace

bool must_fly(const Qp& qp, const Flight& flight) {
  return flight.remote.bytes != 0 &&
         (flight.local.gpu >= 0 || flight.remote.gpu >= 0 || !qp.peer->direct());
}

Verdict start_flight(Qp& qp, const Wqe& wqe, Flight& flight, bool alone) {
  if (wqe.atomic()) return {Verdict::kFinished, IBV_WC_REM_OP_ERR};
  int64_t kind = kind_of(qp, wqe, flight);
  if (!alone && (kind == kAlone || kind != qp.flying_kind)) return {Verdict::kWaitAlone};
  flight.bouncing = false;
  flight.solicited = (wqe.flags & IBV_SEND_SOLICITED) != 0;
  Verdict verdict =
      qp.peer->self() ? launch_copies(qp, wqe, flight) : launch_bounce(qp, wqe, flight);
  if (verdict.kind == Verdict::kFlying) {
    qp.flying_kind = kind;
    qp.remote->inbound.fetch_add(1);
  }
  return verdict;
}

Verdict advance_transfer(Qp& qp, Flight& flight) {
  return flight.bouncing ? poll_bounce(qp, flight) : poll_copies(flight);
}

void land_transfer(Qp& qp, Flight& flight, bool success) {
  SharedQp& remote = *qp.remote;
  if (flight.has_recv) {
    flight.has_recv = false;
    SharedLock lock(remote.mutex);
    if (!success) flight.recv.status = IBV_WC_WR_FLUSH_ERR;
    uint32_t state = remote.state.load();
    if (remote.live.load() != 0 && state != IBV_QPS_RESET) {
      push_completion(*qp.process, *qp.peer, remote.recv_cq, flight.recv, flight.solicited);
    }
  }
  flight.drop_refs();
  remote.inbound.fetch_sub(1, std::memory_order_release);
}

void abort_transfer(Qp& qp, Flight& flight) {
  if (flight.bouncing) {
    flight.bounce->abort(qp);
  } else {
    while (poll_copies(flight).kind == Verdict::kFlying) std::this_thread::yield();
  }
  land_transfer(qp, flight, false);
}

}  // namespace softhca
