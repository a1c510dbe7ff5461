// How the two ends of a connection agree on a pair that failed: which chunks have arrived over it,
// when the others may be sent again over another pair, and when this one may be used again.
// docs/wire-protocol.md explains the protocol, and tests/model checks it exhaustively over this
// class.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>

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

  // Whether a work request has failed, and nothing else is known.
  bool is_of_a_request() const {
    return reason == wire::PairReason::kCompletion || reason == wire::PairReason::kProbe;
  }
  bool operator==(const PairCause&) const = default;
};

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
  // PairReturn::on_failed.
  kRevive,
  // Post a return probe (PairIo), then call on_probe_posted, and on_probe_completed
  // when it completes. A post that fails is a failure of the pair.
  kProbe,
};

// How a pair that is down returns: when it is tried again, and the probes that show that it works.
// Not thread-safe.
class PairReturn {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Whether the pair's port is active, so that it may be tried again; true at first.
  void set_port_active(bool active) { port_active_ = active; }
  // No pair of the connection is usable: this one is tried again after the first pause each time.
  void set_urgent(bool urgent) { urgent_ = urgent; }
  // An attempt failed, or was not made because it would fail; the next one comes after a longer
  // pause.
  void on_failed(Time now);
  void on_probe_posted() { probe_ = Probe::kPosted; }
  bool own_probe_done() const { return probe_ == Probe::kDone; }
  bool probed() const { return own_probe_done() && peer_probed_; }
  // The other end's probe of the present epoch has arrived.
  void on_peer_probed() { peer_probed_ = true; }

 private:
  friend class PairAgreement;
  friend struct PairAgreementKey;
  enum class Probe : uint8_t { kNone, kPosted, kDone };

  void on_down(Time now, bool was_usable);
  void lengthen_pause(std::chrono::seconds longest);
  Time at(bool peer_waits) const;

  bool data_path_done_ = false;
  bool port_active_ = true;
  bool failed_ = false;  // since the other end has stated its step
  bool urgent_ = false;
  // In this epoch; epoch 0 begins without probes.
  Probe probe_ = Probe::kDone;
  bool peer_probed_ = true;
  std::chrono::seconds pause_{0};
  Time paused_at_{};
  Time ready_since_{};
};

// The other end, as its newest statement says.
struct PeerEnd {
  uint32_t serial = 0;  // 0: nothing was stated
  uint32_t step = 0;
  uint32_t seen = 0;     // this end's step that it knows
  uint64_t arrived = 0;  // in the last epoch that ended there
  PairCause cause;
  wire::PortAddress address{};  // of its port
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
  // The pair failed. The first cause of an epoch is kept, and of a pair that was usable the peer's
  // cause of an earlier loss forgotten. known: this end knows the cause, or that it does not bring
  // the pair back; of one that is lost already, the other end has to learn that as well.
  void on_failure(PairCause cause, bool known = false);
  // The QP is in ERROR, or does not exist any more: it neither sends nor takes anything.
  void on_stopped(Time now);
  // Receiver: all arrivals of the epoch are counted. Only after on_stopped.
  void on_counted(uint64_t arrived, Time now);
  // Nothing that the data path still has to do concerns the epoch that ended (recovered() was
  // true).
  void on_data_path_done() { return_.data_path_done_ = recovered(); }
  // The QP is connected: with that address of this end's port, which is stated, to that one of the
  // peer's. In epoch 0 by the handshake, and before each on_revived.
  void on_connected(const wire::PortAddress& own, const wire::PortAddress& peer);
  void on_revived();
  void on_probe_completed(ibv_wc_status status, Time now);
  PairReturn& returns() { return return_; }

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
  bool usable() const { return carries_statements() && return_.probed(); }
  // The pair is ready at both ends, and becomes usable if the probes of both come through.
  bool awaits_probe() const { return carries_statements() && !return_.probed(); }
  // A statement may be sent over the pair: it is ready at both ends, even if the probe has not been
  // seen to complete. An end that NCCL does not call polls no completions, and may have no other
  // carrier.
  bool carries_statements() const { return !lost() && peer_.step == step(); }
  // The pair failed, at this end or at the other, and has not been revived since: the data path
  // must not post on it.
  bool lost() const { return phase_ != Phase::kReady; }
  // Nothing can arrive any more at either end: what is missing may be sent over another pair. Until
  // on_revived.
  bool recovered() const { return phase_ == Phase::kDown && peer_.step >= step(); }
  // Between the epochs: the pair may be connected again, if its pause is over.
  bool may_revive() const { return recovered() && return_.data_path_done_ && return_.port_active_; }
  // Between the epochs: the other end is ready in the next one already, for which it has resolved
  // this end's address, and this end's attempt to follow is not known to be in vain.
  bool peer_waits() const { return peer_.step > step() && !return_.failed_; }
  uint32_t epoch() const { return epoch_; }
  uint32_t step() const { return 2 * epoch_ + (phase_ == Phase::kDown ? 1 : 0); }
  // With recovered(), peer().arrived is of epoch().
  const PeerEnd& peer() const { return peer_; }
  // The first cause at this end since the pair was usable last; kPeer where it was lost because of
  // the other end, whose cause is peer().cause.
  const PairCause& cause() const { return cause_; }
  // Of the peer's port, as the peer has stated it last.
  const wire::PortAddress& peer_address() const {
    return peer_.serial == 0 ? connected_to_ : peer_.address;
  }

  // ---- what this end states
  // This end has taken a step since its last statement, or the other end has asked for one.
  bool statement_due() const { return due_; }
  // The other end has not shown that it knows this end's step, or has not followed it down: state
  // it again from time to time. A statement may be lost on its way; and where the other end's
  // answers are, this end finds by its own statements that the pair which carries them has failed.
  // NCCL calls the end that waits, and perhaps not the other one, which then sees no completions.
  bool unseen() const {
    return peer_.seen < step() || (phase_ == Phase::kDown && peer_.step < step());
  }
  // The statement to send, over every carrier there is.
  wire::PairStatement make_statement();

 private:
  friend struct PairAgreementKey;  // of tests/model, which has to recognise states that it has seen
  // This end's way through an epoch, of which only kDown is a step of its own.
  enum class Phase : uint8_t {
    kReady,
    kLost,     // at this end or at the other
    kStopped,  // the QP is in ERROR
    kCounted,  // receiver: all arrivals are counted
    kDown,
  };

  void go_down_if_possible(Time now);
  // Where both ends are ready and this one is connected to a former address of the peer's port: its
  // next attempt takes the present one.
  void lose_former_address();

  PairEnd end_;
  uint16_t pair_;
  Phase phase_ = Phase::kReady;
  uint32_t epoch_ = 0;
  uint32_t serial_ = 0;
  uint64_t arrived_ = 0;           // in the last epoch that ended
  uint64_t counted_arrivals_ = 0;  // in this one, from kCounted on
  PairCause cause_;
  bool due_ = false;
  PairReturn return_;
  wire::PortAddress address_{};
  wire::PortAddress connected_to_{};
  PeerEnd peer_;
};

}  // namespace gdr::transport
