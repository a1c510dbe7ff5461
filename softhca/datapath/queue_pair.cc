#include "softhca/datapath/queue_pair.h"

#include <thread>

#include "softhca/datapath/copy_requests.h"
#include "softhca/datapath/engine_wake.h"
#include "softhca/datapath/receive_ring.h"
#include "softhca/fabric/event_queue.h"
#include "softhca/fabric/route.h"

namespace softhca {

namespace {

// Returns true when both QPs use the same ECE options, and those that either of them has to use.
bool agree(const SharedQp& a, const SharedQp& b) {
  uint32_t required = a.ece_required | b.ece_required;
  return a.ece_options == b.ece_options && (a.ece_options & required) == required;
}

}  // namespace

LinkEnds QueuePair::link_ends(bool fetches) const {
  SharedPort& own = port();
  LinkEnds ends;
  ends.near_busy_ns = fetches ? &own.receive_busy_ns : &own.send_busy_ns;
  // The entry of a QP that was never created has no port.
  if (!connected() || remote_->port == 0) return ends;
  SharedPort& other = peer_->arena().header().ports[remote_->device][remote_->port - 1];
  ends.far_busy_ns = fetches ? &other.send_busy_ns : &other.receive_busy_ns;
  return ends;
}

void QueuePair::connect() {
  peer_ = process_.peer(qpn_slot(shared_.dest_qpn));
  remote_ = peer_ == nullptr ? nullptr : &peer_->arena().qp(qpn_index(shared_.dest_qpn));
  watch_ = process_.arena().header().triggers.watch.load();
  if (peer_ == nullptr) return;
  Watch theirs = peer_->arena().header().triggers.watch.load();
  if (theirs == Watch::kEvents) watch_ = theirs;
}

void QueuePair::disconnect() {
  remote_ = nullptr;
  peer_ = nullptr;
}

bool QueuePair::remote_answers() {
  const SharedQp& remote = *remote_;
  uint32_t state = remote.state.load(std::memory_order_relaxed);
  if (remote.live.load() == 0 || (state != IBV_QPS_RTR && state != IBV_QPS_RTS &&
                                  state != IBV_QPS_SQD && state != IBV_QPS_SQE)) {
    return false;
  }
  if (peer_->port(remote.device, remote.port)->state.load() != IBV_PORT_ACTIVE) return false;
  // Packets ahead of the expected one are lost: the NAK asks for packets that were never sent, so
  // the requester ignores it (check_psn() of Linux, rxe_resp.c and rxe_comp.c).
  if (packets_behind() > (kPsnMask + 1) / 2) return false;
  uint32_t epoch = remote.epoch.load(std::memory_order_relaxed);
  uint32_t own_epoch = shared_.epoch.load(std::memory_order_relaxed);
  if (verified_epoch_ == epoch && verified_own_epoch_ == own_epoch) return true;
  if (remote.qpn != shared_.dest_qpn || remote.dest_qpn != shared_.qpn || !agree(shared_, remote)) {
    return false;
  }
  const SharedPort& far = *peer_->port(remote.device, remote.port);
  if (!packets_arrive(shared_, port(), remote, far) ||
      !packets_arrive(remote, far, shared_, port())) {
    return false;
  }
  verified_epoch_ = epoch;
  verified_own_epoch_ = own_epoch;
  return true;
}

void QueuePair::enter_error() {
  SharedLock lock(shared_.mutex);
  uint32_t state = shared_.state.load();
  if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) return;
  shared_.state.store(IBV_QPS_ERR);
  flush_receives(process_, process_.self(), shared_);
}

void QueuePair::fail() {
  if (state() == IBV_QPS_ERR) return;
  enter_error();
  post_event(process_, process_.self(), shared_.async_queue, {IBV_EVENT_QP_FATAL, config_.index});
}

void QueuePair::fail_remote(int event) {
  uint32_t state = remote_->state.load();
  if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) return;
  remote_->state.store(IBV_QPS_ERR);
  flush_receives(process_, *peer_, *remote_);
  if (event >= 0) {
    post_event(process_, *peer_, remote_->async_queue,
               {static_cast<uint32_t>(event), qpn_index(remote_->qpn)});
  }
  wake_engine(peer_->arena().header());  // it flushes sends that wait for nothing else
}

bool QueuePair::finish_flush(Peer* peer) {
  const bool any = shared_.inbound.load(std::memory_order_acquire) != 0;
  // What a killed peer has asked this process to copy is still carried out here.
  const bool goes_on = peer == nullptr || peer->alive() || copies_for(process_, peer->instance());
  if (any && goes_on) return false;
  SharedLock lock(shared_.mutex);
  if (any) {
    put_back(shared_, shared_.rq_taken);
    shared_.inbound.store(0);
  }
  if (state() == IBV_QPS_ERR) flush_receives(process_, process_.self(), shared_);
  return true;
}

void wait_for_inbound(QueuePair& pair, Peer* peer) {
  while (!pair.finish_flush(peer)) std::this_thread::yield();
}

}  // namespace softhca
