// A QP as the data path sees it: its shared entry, its attributes and the QP that it is connected
// to. verbs/qp.h adds what the application holds (ibv_qp and its two queues).
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "softhca/fabric/process.h"
#include "softhca/model/link_model.h"

namespace softhca {

constexpr uint32_t kPsnMask = 0xffffff;  // packet sequence numbers (PSN) have 24 bits

// What a QP is created with. It never changes.
struct QueuePairConfig {
  uint32_t index;  // in the arena's table of QPs
  uint32_t send_cq;
  ibv_qp_type type;
  ibv_qp_cap cap;
  bool signal_all;                // sq_sig_all of ibv_qp_init_attr
  ibv_qp* handle;                 // the application's
  double ack_timeout_factor = 1;  // DeviceConfig::ack_timeout_factor
};

class QueuePair {
 public:
  QueuePair(Process& process, const QueuePairConfig& config, LinkModel& link)
      : process_(process),
        shared_(process.arena().qp(config.index)),
        config_(config),
        link_(&link) {}
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Process& process() const { return process_; }
  SharedQp& shared() const { return shared_; }
  const QueuePairConfig& config() const { return config_; }
  bool reliable() const { return config_.type == IBV_QPT_RC; }
  ibv_qp_state state(std::memory_order order = std::memory_order_seq_cst) const {
    return static_cast<ibv_qp_state>(shared_.state.load(order));
  }
  SharedPort& port() const { return process_.port(shared_.device, shared_.port); }

  // The members from here to the counters belong to the thread that holds the send queue's mutex.

  // The attributes as last modified, but for sq_psn, the number of the packet that is sent next,
  // and rq_psn, which is in shared().
  ibv_qp_attr& attributes() { return attributes_; }
  const ibv_qp_attr& attributes() const { return attributes_; }
  LinkModel& link() const { return *link_; }
  void set_link(LinkModel& link) { link_ = &link; }
  // Returns the ends of the link that a request occupies: a request that fetches has its data come
  // back, so the directions are swapped.
  LinkEnds link_ends(bool fetches) const;

  // Finds the QP that dest_qpn names. With no such process the QP has no remote end.
  void connect();
  void disconnect();
  bool connected() const { return remote_ != nullptr; }
  // Only while connected().
  Peer& peer() const { return *peer_; }
  SharedQp& remote() const { return *remote_; }
  // Returns false when the connected process has ended.
  bool peer_alive() const { return peer_ == nullptr || peer_->alive(); }
  // What the faults of this process and of the peer watch of each request; known once connected.
  Watch watch() const { return watch_; }
  // Returns true when the remote QP accepts packets of this one: it is in a state to receive, its
  // port is up, both address each other, both use the same ECE options, and it expects no earlier
  // packet than the next one. remote().mutex is held.
  bool remote_answers();
  // How many packets this QP still sends before the one that the remote QP expects. Values above
  // half of the numbers mean that it is ahead instead. remote().mutex is held. UC ignores numbers:
  // its responder adopts that of a message's first packet (check_psn() of Linux, rxe_resp.c).
  uint32_t packets_behind() const {
    return reliable() ? (remote_->rq_psn - attributes_.sq_psn) & kPsnMask : 0;
  }
  // Advances the packet number of this end by those of a message of so many bytes.
  void count_sent(uint64_t bytes) {
    attributes_.sq_psn = (attributes_.sq_psn + packets_of(bytes)) & kPsnMask;
  }
  // The same at both ends: the remote QP has accepted the message. remote().mutex is held.
  void count_accepted(uint64_t bytes) {
    count_sent(bytes);
    remote_->rq_psn = (remote_->rq_psn + packets_of(bytes)) & kPsnMask;
  }
  // A message without data is one packet, too.
  uint32_t packets_of(uint64_t bytes) const {
    const uint32_t shift = attributes_.path_mtu + 7;  // IBV_MTU_256 is 1
    return bytes == 0 ? 1 : static_cast<uint32_t>((bytes - 1) >> shift) + 1;
  }

  // Reads that are in progress asynchronously.
  uint32_t reads_in_progress() const { return reads_in_progress_; }
  void read_started() { ++reads_in_progress_; }
  void read_ended() { --reads_in_progress_; }

  // Which transfers are in progress asynchronously (datapath/async_transfer.cc).
  int64_t async_kind() const { return async_kind_; }
  void set_async_kind(int64_t kind) { async_kind_ = kind; }
  // Chosen at the first copy, so that QPs which copy spread evenly over a device's lanes, whatever
  // other QPs were created between them.
  uint32_t lane_hint() {
    if (lane_hint_ == kNoHint) lane_hint_ = process_.next_lane_hint();
    return lane_hint_;
  }
  // How long a peer may be silent before a request fails, in ns: 4.096 us x 2^timeout for each of
  // retry_cnt + 1 tries (IBTA 9.7.6.1.3), times the factor of the configuration. A timeout of 0
  // means for ever: UINT64_MAX.
  uint64_t patience_ns() const {
    if (attributes_.timeout == 0) return UINT64_MAX;
    uint64_t all_tries = (4096ull << attributes_.timeout) * (attributes_.retry_cnt + 1u);
    if (config_.ack_timeout_factor == 1) return all_tries;
    return static_cast<uint64_t>(static_cast<double>(all_tries) * config_.ack_timeout_factor);
  }

  // Positions up to which polled completions have freed the slots of the two queues.
  uint64_t sends_polled() const { return sends_polled_.load(std::memory_order_relaxed); }
  uint64_t receives_polled() const { return receives_polled_.load(std::memory_order_relaxed); }
  void set_sends_polled(uint64_t position) {
    sends_polled_.store(position, std::memory_order_relaxed);
  }
  void set_receives_polled(uint64_t position) { receives_polled_.store(position); }
  // Accounts for a completion of this QP that the application has taken from its CQ.
  void polled(const Cqe& entry) {
    if (entry.is_send != 0) {
      set_sends_polled(entry.release);
    } else {
      receives_polled_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Moves the QP to ERROR and flushes its receives; the send queue flushes its requests. Does
  // nothing in ERROR and RESET.
  void enter_error();
  // enter_error() with IBV_EVENT_QP_FATAL.
  void fail();
  // Moves the remote QP to ERROR, as a responder that sends a NAK does. `event` is that which its
  // owner gets, or -1. remote().mutex is held.
  void fail_remote(int event);
  // Completes the flush of a QP in ERROR once no transfer of `peer`, the process at the other end,
  // uses memory through this QP any more. Returns false while one does: call it again. A peer that
  // was killed uses none.
  bool finish_flush(Peer* peer);
  // The process at the other end, which stays when the QP is disconnected. Null without one.
  std::shared_ptr<Peer> share_peer() const { return peer_; }

 private:
  static constexpr uint32_t kNoHint = UINT32_MAX;

  Process& process_;
  SharedQp& shared_;
  const QueuePairConfig config_;
  LinkModel* link_;
  ibv_qp_attr attributes_ = {};

  // The other end, from RTR on; null when dest_qpn named no process.
  std::shared_ptr<Peer> peer_;
  SharedQp* remote_ = nullptr;
  // The epochs of both ends when their addresses were last found to match.
  uint32_t verified_epoch_ = 0;
  uint32_t verified_own_epoch_ = 0;

  Watch watch_ = Watch::kNothing;
  int64_t async_kind_ = 0;
  uint32_t reads_in_progress_ = 0;
  uint32_t lane_hint_ = kNoHint;
  std::atomic<uint64_t> sends_polled_{0};
  std::atomic<uint64_t> receives_polled_{0};
};

// Waits until finish_flush(), as a QP that is modified or destroyed does.
void wait_for_inbound(QueuePair& pair, Peer* peer);

}  // namespace softhca
