// How the two ends of a connection agree on a pair that failed: which chunks have arrived over it,
// when the others may be sent again over another pair, and when this one may be used again.
// docs/wire-protocol.md explains the protocol, and tests/model checks it exhaustively over this
// class.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Which end of the connection this is. Only the receiver counts what arrives.
enum class PairEnd : uint8_t { kSender, kReceiver };

// Why a pair was lost at this end.
struct PairCause {
  wire::PairReason reason = wire::PairReason::kNone;
  // With kCompletion and kProbe; with kPortDown where a work request has shown it.
  ibv_wc_status status = IBV_WC_SUCCESS;
  int sys_errno = 0;  // with kWithdrawn and kRailMissing: what could not be created or registered

  bool operator==(const PairCause&) const = default;
};

// "RETRY_EXC_ERR", "the port is down", "the port is down (RETRY_EXC_ERR)".
std::string to_string(const PairCause& cause);
// The cause that the other end states. A status that this end's verbs do not know is GENERAL_ERR.
PairCause cause_of(const wire::PairStatement& statement);

// Reads an entry of wire::Tables, which the other end's HCA may be writing. Unset: there is none,
// or it is not whole (read it again later), or this version does not know it.
std::optional<wire::PairStatement> read_statement(const wire::PairStatement& entry);

// What the owner of a PairAgreement is to do next.
enum class PairAction : uint8_t {
  kNone,
  // Move the QP to ERROR (or destroy it, where that fails), then call on_stopped.
  kStop,
  // Move the QP through RESET to RTS for epoch() + 1, receives posted, then call on_revived; or
  // on_revival_failed.
  kRevive,
  // Post a return probe (PairIo), then call on_probe_posted, and on_probe_completed
  // when it completes. A post that fails is a failure of the pair.
  kProbe,
};

// This end's half of the agreement on one pair. Pure: it knows no lock, no verbs object and no
// clock. Not thread-safe.
//
// Steps: 2 e is "ready in epoch e", 2 e + 1 is "down in epoch e"; both ends begin with 0. An end
// states its step to the other, and takes a step only if the other's is known not to be behind, so
// that the steps of both ends differ by one at most:
//   ready e -> down e        the pair is lost here or there; the QP is in ERROR, so that nothing
//                            that is late can reach this end's memory; the receiver has counted all
//                            arrivals; the other end is at 2 e or beyond
//   down e -> ready e + 1    the other end is at 2 e + 1 or beyond, the data path has finished the
//                            recovery, the port is active, and the QP is in RTS again
// Example: the sender's QP reports an error. It moves it to ERROR, is at step 1 and states that.
// The receiver moves its QP to ERROR, takes the completions that are left, 17 in all, and states
// step 1 with arrived 17. Both then know that the pair is down at both ends, and the sender sends
// the chunks from number 17 on over another pair.
class PairAgreement {
 public:
  using Time = std::chrono::steady_clock::time_point;

  PairAgreement(PairEnd end, uint16_t pair) : end_(end), pair_(pair) {}

  // ---- what happens at this end
  // The pair failed. The first cause of an epoch is kept.
  void on_failure(PairCause cause);
  // This end knows the cause, or that it does not bring the pair back: of a pair that is lost
  // already, the other end has to learn that as well.
  void on_known_cause(PairCause cause);
  // The QP is in ERROR, or does not exist any more: it neither sends nor takes anything.
  void on_stopped(Time now);
  // Receiver: all arrivals of the epoch are counted. Only after on_stopped.
  void on_counted(uint64_t arrived, Time now);
  // Sender, with recovered(): the data path has taken over what was missing. has_lost: chunks that
  // were posted on the pair have to be sent again.
  void on_taken_over(bool has_lost);
  // Nothing that the data path still has to do concerns the epoch that ended (recovered() was
  // true).
  void on_data_path_done() { data_path_done_ = recovered(); }
  // Whether the pair's port is active, so that it may be tried again; true at first.
  void set_port_active(bool active) { port_active_ = active; }
  // No pair of the connection is usable: this one is tried again after the first pause each time.
  void set_urgent(bool urgent) { urgent_ = urgent; }
  // The QP is connected: with that address of this end's port, which is stated, to that one of the
  // peer's. In epoch 0 by the handshake, and before each on_revived.
  void on_connected(const wire::PortAddress& own, const wire::PortAddress& peer);
  void on_revived();
  // An attempt was in vain; the next one comes after a longer pause.
  void on_revival_failed(Time now);
  // No attempt was made, as it would be in vain; it is considered again after the same pause.
  void on_revival_put_off(Time now);
  void on_probe_posted() { probe_ = Probe::kPosted; }
  void on_probe_completed(ibv_wc_status status, Time now);
  // The other end's probe of that epoch has arrived.
  void on_peer_probed(uint32_t of_epoch) { peer_probed_ = peer_probed_ || of_epoch == epoch(); }

  // ---- what the other end states
  // Takes a statement; old and repeated ones change nothing. `statement` is of this pair, and
  // wire::is_known. kInternal where it contradicts the protocol or an earlier statement: the
  // connection has to fail.
  Status on_statement(const wire::PairStatement& statement, Time now);

  // ---- what follows
  PairAction next(Time now) const;
  // When next() may change although nothing happens, or has changed; Time::max() if it cannot.
  Time deadline() const;
  // The data path may post on the pair.
  bool usable() const { return agreed_ready() && probed(); }
  // The pair is ready at both ends, and becomes usable if the probes of both come through.
  bool awaits_probe() const { return agreed_ready() && !probed(); }
  bool awaits_own_probe() const { return awaits_probe() && probe_ != Probe::kDone; }
  // A statement may be sent over the pair: it is ready at both ends, even if the probe has not been
  // seen to complete. An end that NCCL does not call polls no completions, and may have no other
  // carrier.
  bool carries_statements() const { return agreed_ready(); }
  // The pair failed, at this end or at the other, and has not been revived since: the data path
  // must not post on it.
  bool lost() const { return lost_; }
  // Nothing can arrive any more at either end: what is missing may be sent over another pair. Until
  // on_revived.
  bool recovered() const { return is_down() && peer_step_ >= step_; }
  // Between the epochs: the other end is ready in the next one already, for which it has resolved
  // this end's address.
  bool peer_is_ahead() const { return peer_step_ > step_; }
  // And this end's attempt to follow is not known to be in vain.
  bool peer_waits() const { return peer_is_ahead() && !revival_failed_; }
  // What arrived at the other end in epoch(). With recovered().
  uint64_t peer_arrived() const { return peer_arrived_; }
  uint32_t epoch() const { return step_ / 2; }
  uint32_t step() const { return step_; }
  uint32_t peer_step() const { return peer_step_; }
  // The first cause at this end in the current epoch; where the pair was lost because of the other
  // end, that one's cause.
  const PairCause& cause() const { return cause_; }
  const PairCause& peer_cause() const { return peer_cause_; }
  // Of this end's port, when the QP was connected last; of the peer's, as the peer has stated it
  // last.
  const wire::PortAddress& address() const { return address_; }
  const wire::PortAddress& peer_address() const {
    return peer_serial_ == 0 ? connected_to_ : peer_address_;
  }

  // ---- what this end states
  // This end has taken a step since its last statement, or the other end has asked for one.
  bool statement_due() const { return due_; }
  // The other end has not shown that it knows this end's step, or has not followed it down: state
  // it again from time to time. A statement may be lost on its way; and where the other end's
  // answers are, this end finds by its own statements that the pair which carries them has failed.
  // NCCL calls the end that waits, and perhaps not the other one, which then sees no completions.
  bool unseen() const { return peer_seen_ < step_ || (is_down() && peer_step_ < step_); }
  // The statement to send, over every carrier there is.
  wire::PairStatement make_statement();

 private:
  friend struct PairAgreementKey;  // of tests/model, which has to recognise states that it has seen
  enum class Probe : uint8_t { kNone, kPosted, kDone };

  bool is_down() const { return step_ % 2 == 1; }
  bool agreed_ready() const { return !is_down() && !lost_ && peer_step_ == step_; }
  bool probed() const { return epoch() == 0 || (probe_ == Probe::kDone && peer_probed_); }
  bool may_revive() const;
  Time revive_at() const;
  Status check(const wire::PairStatement& statement) const;
  void take(const wire::PairStatement& statement);
  void lose(PairCause cause);
  void lose_if_peer_has_moved();
  void go_down_if_possible(Time now);
  void lengthen_pause(Time now);

  PairEnd end_;
  uint16_t pair_;
  // This end.
  uint32_t step_ = 0;
  uint32_t serial_ = 0;
  uint64_t arrived_ = 0;           // in the last epoch that ended
  uint64_t counted_arrivals_ = 0;  // in this one; valid when counted_
  PairCause cause_;
  bool lost_ = false;
  bool stopped_ = false;
  bool counted_ = false;
  bool data_path_done_ = false;
  bool port_active_ = true;
  bool revival_failed_ = false;  // or was put off, since the other end has stated its step
  bool urgent_ = false;
  bool due_ = false;
  Probe probe_ = Probe::kNone;
  bool peer_probed_ = false;  // in this epoch
  std::chrono::seconds pause_{0};
  int returns_in_vain_ = 0;  // sender: epochs in turn whose chunks were all lost
  Time paused_at_{};
  Time ready_since_{};
  wire::PortAddress address_{};
  wire::PortAddress connected_to_{};
  // The other end, as its newest statement says.
  wire::PortAddress peer_address_{};
  uint32_t peer_serial_ = 0;
  uint32_t peer_step_ = 0;
  uint32_t peer_seen_ = 0;
  uint64_t peer_arrived_ = 0;
  PairCause peer_cause_;
};

}  // namespace gdr::transport
