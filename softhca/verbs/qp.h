// Queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "softhca/datapath/send_queue.h"
#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"
#include "softhca/verbs/cq.h"

namespace softhca {

class LinkModel;

struct Qp {
  ibv_qp_ex ex;  // begins with ibv_qp
  Process* process;
  SharedQp* shared;
  uint32_t index;
  Cq* send_cq;
  Cq* recv_cq;
  bool sq_sig_all;
  ibv_qp_cap cap;
  ibv_qp_attr attr = {};  // as last modified; under sq.mutex
  LinkModel* link = nullptr;

  // The other end, from RTR on; null when there was nobody.
  std::shared_ptr<Peer> peer;
  SharedQp* remote = nullptr;
  uint32_t checked_epoch = 0;      // of the remote QP when its address was last compared
  uint32_t checked_own_epoch = 0;  // and ours

  std::mutex rq_mutex;
  std::atomic<uint64_t> rq_polled{0};
  std::atomic<bool> dying{false};
  std::atomic<bool> on_engine{false};
  uint32_t async_events = 0;  // got, under ex.qp_base.mutex
  std::unique_ptr<SendQueue> sq;

  static Qp& of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
  static Qp& of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }
  ibv_qp* handle() { return &ex.qp_base; }

  int64_t flying_kind = 0;  // of the transfers under way; flight.cc's

  // Taken at the first copy, so that the QPs which copy spread evenly over a device's lanes,
  // whatever other QPs were made between them. sq->mutex is held.
  uint32_t lane_hint() {
    if (lane_hint_ == kNoHint) lane_hint_ = process->lane_hints.fetch_add(1);
    return lane_hint_;
  }

  // How long a peer may stay silent: 4.096 us x 2^timeout, for every try. UINT64_MAX: for ever.
  uint64_t patience_ns() const {
    return attr.timeout == 0 ? UINT64_MAX : (4096ull << attr.timeout) * (attr.retry_cnt + 1u);
  }
  // A completion of this QP was taken from its CQ.
  void polled(const Cqe& entry) {
    if (entry.is_send != 0) {
      sq->polled(entry.release);
    } else {
      rq_polled.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // Carries the send queue on, and hands what cannot be done now to the engine. sq->mutex is held.
  void run();
  // Receives are flushed; requests are, by the caller. Nothing to do in error or reset.
  void enter_error();
  // enter_error() with an IBV_EVENT_QP_FATAL.
  void fatal();

 private:
  static constexpr uint32_t kNoHint = UINT32_MAX;
  uint32_t lane_hint_ = kNoHint;
};

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);
int destroy_qp(ibv_qp* qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
void set_qp_writers(ibv_qp_ex* qp);

// Completes all posted receives of a QP of `owner` as flushed. Its mutex is held.
void flush_receives(Process& process, const Peer& owner, SharedQp& qp);

}  // namespace softhca
