// What a sender and a receiver have in common: the rails, both ends' addresses, the link to the
// peer, and how a failure is reported. connection_rails.cc has what adds rails and pairs and what
// leaves them out, connection_failure.cc what fails a connection.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process_fds.h"
#include "transport/data/spread_path.h"
#include "transport/link/peer_link.h"
#include "transport/memory/own_allocations.h"
#include "transport/pairs/ece_agreement.h"
#include "transport/pairs/pair_plan.h"
#include "transport/pairs/rail_set.h"
#include "transport/pairs/rail_tables.h"
#include "transport/recovery/recovery.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {

struct RegistrationScope;

// One end of a connection: its rails, the peer's addresses and the link to the peer. A SendComm or
// a ReceiveComm owns it.
class Connection {
 public:
  Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends);
  Connection(Connection&&) = default;
  ~Connection();

  // Creates this end of a rail. Its QPs have yet to be moved to INIT.
  Status add_rail(const Device& device, const RailSpec& spec);
  // Creates this end of the pairs that `plan` plans for `rails`, each as `each` says; its `qps`
  // does not count; and the tables. Rails without a pair are left out. A connection that offers
  // recovery also goes without rails that cannot be created, unless none is left. Where that is an
  // active rail, it is first tried again lean: without standby rails, with the depths `least`,
  // which `each` then has, and with what standby pairs of other connections give up for it
  // (make_room). So it is made at once where little memory is left to lock
  // (ConnectionOptions::spare_memory).
  using Planner = std::function<PairPlan(const EndRails& rails, bool lean)>;
  Result<RailTables> add_rails(EndRails rails, const Planner& plan, RailSpec* each,
                               const QueueDepths& least);
  // Whether something that could not be created on the device for that reason is to be tried again,
  // as the standby pair of another connection has been destroyed for it.
  bool make_room(const Device& device, const Error& lack, bool waits = true);
  // Destroys a standby pair of this connection in its favour, before the peer learns of its QP.
  bool give_up_standby(const Device& device, const Error& lack);
  // The same for a registration on a rail that does not stand by, for which it may be done so
  // often. Any thread.
  bool make_room_to_register(uint32_t rail, const Error& lack) const;
  static size_t most_rooms(size_t bytes);

  // This end recovers pairs. Called before add_rails().
  void offer_recovery() { offers_recovery_ = true; }
  // Whether pairs are recovered: both ends do. Once accept_peer() has been called.
  bool recovers() const { return offers_recovery_ && (peer_.flags & wire::kEndRecovers) != 0; }

  // Fills what this end sends in kHello or kReply: secret, host, rails and QPs.
  void describe(const wire::Secret& secret, wire::EndPoint* end) const;

  // Checks that the peer's end fits ours, and keeps it. The error text names both ends and the fix.
  Status accept_peer(const wire::EndPoint& peer);
  // Begins to connect all QPs to the peer that accept_peer took. service: of what this end sends.
  void begin_connecting(ServiceClass service);
  // Sender, with all QPs in INIT: asks the HCAs for the ECE options that describe() then offers.
  void query_ece_offers();
  // Receiver, with all QPs in RTS: asks for those of the sender's options that have been accepted,
  // which describe() then names. A pair that is excluded has none.
  Status query_accepted_ece();
  // The changes of state that this end's QPs have yet to make: to INIT, those of
  // begin_connecting(), and what the owner adds.
  StateChanges& state_changes() { return changes_; }
  // Makes them as far as that is possible without waiting. Returns whether all are made; false:
  // call again.
  Result<bool> change_states();
  // Counts what its set-up tries again.
  void count_retries(Retry retry, uint64_t times) const;
  // Goes on without a pair, or reports its error where it is the last one or cannot be spared.
  Status exclude(uint32_t pair, Error error, PairCause cause = {wire::PairReason::kNotConnected});
  // Whether something may go over a rail: where nothing is recovered, not over one that stands by.
  // Once accept_peer() has been called.
  bool uses(uint32_t rail) const { return recovers() || !stands_by(rail); }
  // Whether the rail carries nothing while others are usable.
  bool stands_by(uint32_t rail) const;
  // Destroys the pairs that stand by where nothing is recovered, and the rails that only they are
  // on. Once all QPs are connected and before make_recovery().
  void drop_unused();
  // Goes on without a rail for good, on which something could not be created. Before keep_link();
  // errors as exclude().
  Status leave_out_rail(uint32_t rail, const Error& error);
  // Makes the Recovery. Once all QPs are connected and before keep_link(). receives: posted per QP.
  void make_recovery(RailTables& tables, int receives);
  // Null before make_recovery().
  Recovery* recovery() { return recovery_.get(); }
  // Takes over the socket of the handshake: from here on the connection fails when the peer goes
  // away, and a failure of either end is reported to the other. role is "sender" or "receiver".
  // A fatal error of a QP over a rail's CQ that is in no pair loses the rail where pairs are
  // recovered, and fails the connection otherwise. direct: ReopenTarget::direct.
  void keep_link(FrameChannel channel, const char* role, bool direct = false);

  const ConnectionOptions& options() const { return *options_; }
  RailSet& rails() { return rails_; }
  const RailSet& rails() const { return rails_; }
  const wire::EndPoint& peer() const { return peer_; }
  PeerLink& link() { return *link_; }
  // The most bytes of one RDMA write on any rail of this end, a multiple of wire::kSplitAlignment:
  // the ports' largest message. An RC write's requester is what limits it.
  size_t max_write_bytes() const;
  // Logs once for each host that its connections do not go on over another rail. Of an end that has
  // a second one.
  void note_peer_without_recovery(const std::string& host);
  // Returns what Registrar needs to register memory for this connection.
  RegistrationScope registration_scope() const;

  // "hostA mlx5_0:1 lid 1 qp 0x11 <-> hostB mlx5_3:1 lid 2 qp 0x12". Each rail is named with its
  // first QP; "mlx5_1:1 lid 3 qp 0x13 (standby)".
  std::string text() const;
  // ", ECE vendor 0x15b3 options 0x30 on 4 QP(s)", or "" where none were agreed on.
  std::string ece_text() const { return ece_->text(); }

  // Reads completions of each rail. Hands each success of the data path's work requests to
  // on_success(const WorkId&, const ibv_wc&), which returns false where the connection has failed,
  // and failed flushes to on_failed_flush(const ibv_wc&). All else that fails goes to the Recovery,
  // and what concerns it. A batch of each rail is read; all that waits, where there are news or the
  // connection has failed. Returns false once it has failed.
  template <class OnSuccess, class OnFailedFlush>
  [[gnu::always_inline]] bool poll(OnSuccess on_success, OnFailedFlush on_failed_flush);
  // The same for completions that have been read. Returns nothing.
  template <class OnSuccess, class OnFailedFlush>
  [[gnu::always_inline]] void take(const ibv_wc* completions, int count, OnSuccess on_success,
                                   OnFailedFlush on_failed_flush);
  // A work request could not be posted on the pair; an errno value. what: "a send".
  // Returns whether the connection goes on.
  [[gnu::cold]] bool on_failed_post(const QueuePair& pair, uint32_t epoch, const char* what,
                                    int err);

  // Whether what this end does without the peer, flushes, may still complete after the connection
  // failed: the failure came from the peer, and not long ago.
  [[gnu::cold]] bool may_finish_local_work();

  // The first failure is kept and sent to the peer; later ones are dropped. Cold: kept out of line,
  // so that the hot path saves no registers for them.
  [[gnu::cold]] void fail(Code code, const std::string& what);
  [[gnu::cold]] void fail_completion(const ibv_wc& wc);
  std::string no_failover_text(ibv_wc_status status) const;
  // Reports the errno value with which a verbs call failed. call: "posting a send".
  [[gnu::cold]] void fail_verbs(const char* call, int err);
  bool failed() const { return link_->failed(); }
  // Returns the code of the failure, for a call of NCCL's, and logs its text at the first such
  // call.
  Code surface_failure();

  // The first step of a teardown, before memory that the peer may write to is deregistered: reports
  // the orderly close to the peer and destroys the QPs of all rails. Idempotent.
  void close();

  static constexpr int kPollBatch = SpreadPath::kPollBatch;

 private:
  Result<RailTables> add_lean(const EndRails& rails, const Planner& plan, RailSpec* each,
                              const QueueDepths& least, const Error& lack);
  Result<RailTables> try_rails(const EndRails& rails, const PairPlan& plan, RailSpec each,
                               size_t* failed);
  // The two ports of a pair: this end's, and the peer's.
  std::pair<const wire::RailAddress&, const wire::RailAddress&> ports_of(uint32_t pair) const;
  bool is_known_unreachable(uint32_t pair) const;
  void note_reached_ports() const;
  bool has_rail_use() const;
  ReopenTarget reopen_target(const FrameChannel& channel, bool direct) const;
  void count_for_process() const;
  void log_rail_use();
  [[gnu::cold]] void log_moved_counters() const;
  [[gnu::cold]] void warn_of_changed_addresses() const;
  void log_excluded(uint32_t pair, const Error& why, bool warns) const;
  bool drop_standby(uint32_t rail, const Error& why) const;
  Status exclude_failed_pairs();
  void exclude_displaced_pairs();
  Status exclude_pair_without_qp(uint32_t pair);
  bool is_excluded(size_t pair) const;
  [[gnu::cold]] void on_failed_work(const ibv_wc& wc);
  [[gnu::cold]] void on_failed_poll(uint32_t rail);
  [[gnu::cold]] void attend();
  void warn_of_missing_flids() const;
  // What is done to QP `index` before it goes to RTR. again: after the handshake.
  std::function<Status()> ece_setter(size_t index, bool again) const;

  std::shared_ptr<const ConnectionOptions> options_;
  Watcher* watcher_;
  bool sends_;  // this is the sending end
  bool offers_recovery_ = false;
  int lacks_ = 0;                 // errno value with which a rail could not be created at last
  int rooms_ = 0;                 // how often make_room() has asked for room
  std::string lacked_elsewhere_;  // text of the lack for which another HCA's pair gave way at last
  bool peer_declines_recovery_ = false;  // which this end could have used
  RailSet rails_;
  uint32_t first_psn_;
  ServiceClass service_;  // of what this end writes
  StateChanges changes_;
  std::unique_ptr<EceAgreement> ece_ = std::make_unique<EceAgreement>();
  wire::EndPoint peer_{};
  std::vector<uint32_t> displaced_;     // pairs whose rail could not be created
  std::vector<LostAtStart> excluded_;   // pairs that could not be connected
  std::shared_ptr<Recovery> recovery_;  // shared with the watcher
  std::unique_ptr<OwnAllocations> own_allocations_ = std::make_unique<OwnAllocations>();
  // Data path only.
  bool surfaced_ = false;
  bool closed_ = false;
  bool failed_here_ = false;  // a work request or a check of this end failed
  std::optional<PeerLink::Clock::time_point> local_work_until_;
  // Last, so that what a comm reads beside it can follow: NCCL polls thousands of connections in
  // turn, of which each costs a cache line and a page for every place that is looked at.
  std::shared_ptr<PeerLink> link_;
};

// The base of both ends, so that memory can be registered on either.
class Comm {
 public:
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  // False in a child that was forked since: the QPs and registrations are the parent's, and the
  // child must not destroy them. Its verbs calls would reach them by the descriptor that it
  // inherited.
  bool belongs_to_this_process() const { return generation_ == process_fds::generation(); }

 protected:
  Comm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends)
      : connection_(std::move(options), watcher, sends) {}
  ~Comm() = default;

  Connection connection_;

 private:
  uint32_t generation_ = process_fds::generation();
};

template <class OnSuccess, class OnFailedFlush>
inline void Connection::take(const ibv_wc* completions, int count, OnSuccess on_success,
                             OnFailedFlush on_failed_flush) {
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const WorkId id = decode_work_id(wc.wr_id);
    if (wc.status == IBV_WC_SUCCESS && id.kind <= WorkKind::kFlush) [[likely]] {
      (void)on_success(id, wc);  // if it fails, so has the connection
    } else if (id.kind == WorkKind::kFlush) {
      on_failed_flush(wc);
    } else {
      on_failed_work(wc);
    }
  }
}

template <class OnSuccess, class OnFailedFlush>
inline bool Connection::poll(OnSuccess on_success, OnFailedFlush on_failed_flush) {
  const bool all = link_->needs_care() || recovery_->has_news();
  const CompletionQueues::Use queues(recovery_->queues());
  for (uint32_t rail = 0; rail < rails_.size(); ++rail) {
    if (!queues.has(rail)) [[unlikely]]
      continue;
    int n;
    do {
      const uint32_t awaited = recovery_->queues().awaited_empty();  // before the poll
      ibv_wc completions[kPollBatch];
      n = ibv_poll_cq(rails_[rail].cq(), kPollBatch, completions);
      take(completions, n, on_success, on_failed_flush);
      if (n < 0) [[unlikely]]
        on_failed_poll(rail);
      if (n == 0 && awaited != 0) [[unlikely]]
        recovery_->on_empty_queue(rail, awaited);
    } while ((all || failed()) && n > 0);
  }
  if (link_->needs_care()) [[unlikely]]
    attend();
  return !failed();
}

}  // namespace gdr::transport
