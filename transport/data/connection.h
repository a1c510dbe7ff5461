// What a sender and a receiver have in common once they are connected: the link to the peer, the
// recovery, how completions are read, and how a failure is reported.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/process_fds.h"
#include "transport/data/connection_end.h"
#include "transport/data/spread_path.h"
#include "transport/link/peer_link.h"
#include "transport/memory/memory_handle.h"
#include "transport/pairs/rail_set.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

class ConnectionSetUp;
struct RegistrationScope;

// One end of a connection. A SendComm or a ReceiveComm owns it.
class Connection {
 public:
  Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends)
      : end_(std::move(options), watcher, sends) {}
  Connection(const Connection&) = delete;
  ~Connection() { close(); }

  // What a ConnectionSetUp fills.
  ConnectionEnd& end() { return end_; }
  const ConnectionEnd& end() const { return end_; }
  const ConnectionOptions& options() const { return *end_.options; }
  RailSet& rails() { return end_.rails; }
  const RailSet& rails() const { return end_.rails; }
  const wire::EndPoint& peer() const { return end_.peer; }
  PeerLink& link() { return *link_; }
  // Null before make_recovery().
  Recovery* recovery() { return recovery_.get(); }

  // Makes the Recovery. Once all QPs are connected and before keep_link(). receives: posted per QP.
  void make_recovery(RailTables& tables, int receives);
  // Takes over the socket of the handshake: from here on the connection fails when the peer goes
  // away, and a failure of either end is reported to the other. A fatal error of a QP over a rail's
  // CQ that is in no pair loses the rail where pairs are recovered, and fails the connection
  // otherwise. direct: ReopenTarget::direct.
  void keep_link(ConnectionSetUp& set_up, FrameChannel channel, bool direct = false);

  // Returns what Registrar needs to register memory for this connection.
  RegistrationScope registration_scope() const;

  // ConnectionEnd::text().
  std::string text() const;

  // Reads completions of each rail. Hands each success of the data path's work requests, and failed
  // flushes, to on_work(const WorkId&, const ibv_wc&). All else that fails goes to the Recovery,
  // and what concerns it. A batch of each rail is read; all that waits, where there are news or the
  // connection has failed. Returns false once it has failed.
  template <class OnWork>
  [[gnu::always_inline]] bool poll(OnWork on_work);
  // The same for completions that have been read. Returns nothing.
  template <class OnWork>
  [[gnu::always_inline]] void take(const ibv_wc* completions, int count, OnWork on_work);
  // A work request could not be posted on the pair; an errno value. what: "a send".
  // Returns whether the connection goes on.
  [[gnu::cold]] bool on_failed_post(const QueuePair& pair, uint32_t epoch, const char* what,
                                    int err);

  // The first failure is kept and sent to the peer; later ones are dropped. Cold: kept out of line,
  // so that the hot path saves no registers for them.
  [[gnu::cold]] void fail(Code code, const std::string& what);
  [[gnu::cold]] void fail_completion(const ibv_wc& wc);
  bool failed() const { return link_->failed(); }
  // Returns the code of the failure, for a call of NCCL's, and logs its text at the first such
  // call.
  Code surface_failure();

  // The first step of a teardown, before memory that the peer may write to is deregistered: reports
  // the orderly close to the peer and destroys the QPs of all rails. Idempotent.
  void close();

 private:
  [[gnu::cold]] void on_failed_work(const ibv_wc& wc);
  [[gnu::cold]] void on_failed_poll(uint32_t rail);
  [[gnu::cold]] void attend();

  ConnectionEnd end_;
  std::unique_ptr<OwnAllocations> own_allocations_ = std::make_unique<OwnAllocations>();
  // Data path only.
  bool surfaced_ = false;
  bool closed_ = false;
  std::shared_ptr<Recovery> recovery_;  // shared with the watcher
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
  // Whether somebody observes the work of the connection: ConnectionOptions::observer.
  bool is_observed() const { return is_observed_; }

 protected:
  Comm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends)
      : connection_(std::move(options), watcher, sends),
        is_observed_(connection_.options().observer.posted != nullptr) {}
  ~Comm() = default;

  Connection connection_;

 private:
  uint32_t generation_ = process_fds::generation();
  const bool is_observed_;
};

template <class OnWork>
inline void Connection::take(const ibv_wc* completions, int count, OnWork on_work) {
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const WorkId id = decode_work_id(wc.wr_id);
    const bool success = wc.status == IBV_WC_SUCCESS && id.kind <= WorkKind::kFlush;
    if (success || id.kind == WorkKind::kFlush) [[likely]] {
      on_work(id, wc);
    } else {
      on_failed_work(wc);
    }
  }
}

template <class OnWork>
inline bool Connection::poll(OnWork on_work) {
  const bool all = link_->needs_care() || recovery_->has_news();
  const CompletionQueues::Use queues(recovery_->queues());
  for (uint32_t rail = 0; rail < end_.rails.size(); ++rail) {
    if (!queues.has(rail)) [[unlikely]]
      continue;
    int n;
    do {
      const uint32_t awaited = recovery_->queues().awaited_empty();  // before the poll
      ibv_wc completions[SpreadPath::kPollBatch];
      n = ibv_poll_cq(end_.rails[rail].cq(), SpreadPath::kPollBatch, completions);
      take(completions, n, on_work);
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
