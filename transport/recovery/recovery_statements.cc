// What the ends of a Recovery write to each other about their pairs: statements, what carries them,
// and probes.
#include <algorithm>

#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_probes.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;

// Pauses between the repetitions of a statement that the peer has not seen.
constexpr milliseconds kFirstRepeat{200};
constexpr milliseconds kLastRepeat{10000};

}  // namespace

// A pair that carries nothing shows nothing: that its path does not work would be noticed when it
// is needed. One end is enough, since a write that is acknowledged has used both directions.
void Recovery::prove_standby() {
  if (!recovers_ || io_.end() != PairEnd::kSender) return;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (!io_.stands_by(i) || pairs_[i].agreement.lost()) continue;
    const WorkId id{WorkKind::kProbe, i, 0, kStandbyProbe};
    if (io_.post_probe(i, encode(id), wire::kProbeBytes) == 0) ++pairs_[i].reserved;
  }
}

bool Recovery::probe_peer() {
  std::lock_guard lock(mutex_);
  if (closed_ || peer_probe_on_) return true;
  const std::optional<uint32_t> carrier = choose_carrier();
  if (!carrier) return false;
  const uint32_t epoch = pairs_[*carrier].agreement.epoch();
  const WorkId id{WorkKind::kProbe, *carrier, epoch, kPeerProbe};
  if (io_.post_probe(*carrier, encode(id), 0) != 0) return false;
  ++pairs_[*carrier].reserved;
  peer_probe_on_ = carrier;
  return true;
}

void Recovery::on_statement(const wire::PairStatement& statement) {
  const Clock::time_point now = this->now();
  std::lock_guard lock(mutex_);
  if (closed_ || !recovers_) return;
  take_statement(statement, now);
  run(now);
}

void Recovery::take_statement(const wire::PairStatement& statement, Clock::time_point now) {
  if (statement.pair >= pairs_.size()) {
    return fail(Code::kInternal, "the peer states a pair that this connection does not have");
  }
  Pair& pair = pairs_[statement.pair];
  const bool could_return = may_return(pair);
  Status taken = pair.agreement.on_statement(statement, now);
  if (!taken) fail(taken.error().code, taken.error().text);
  // As in reason_of(): the peer's requests fail for it, too.
  const bool peers = pair.agreement.cause().reason == wire::PairReason::kPeer;
  if (peers && port_down_[io_.rail(statement.pair)]) {
    pair.agreement.on_known_cause({wire::PairReason::kPortDown});
  }
  const bool is_new = pair.logged && could_return && !may_return(pair);
  if (is_new) hooks_.rail_lost(describe_loss(statement.pair, nullptr));
}

// Only what is newer than what is known counts, so that reading it again does no harm.
void Recovery::read_statements(Clock::time_point now) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const auto statement = read_statement(io_.peer_statement(i));
    if (statement && statement->pair == i) take_statement(*statement, now);
  }
}

bool Recovery::is_statement_due(const Pair& pair, Clock::time_point now) {
  return pair.agreement.statement_due() || (pair.agreement.unseen() && now >= pair.state_at);
}

// Whether an HCA may still read the statement about the pair, which the next one would overwrite.
bool Recovery::is_being_written(const Pair& pair) const {
  if (!pair.stated_over) return false;
  const Pair& by = pairs_[*pair.stated_over];
  return !by.stopped && !by.hopeless;
}

void Recovery::end_statement(const WorkId& id) {
  Pair& pair = pairs_[id.ordinal];
  if (pair.stated_over == id.pair) pair.stated_over.reset();
}

// Over both the socket and RDMA, as either may be interrupted. What is not written over RDMA now
// is repeated.
void Recovery::state(uint32_t index, Clock::time_point now) {
  Pair& pair = pairs_[index];
  const bool repeated = !pair.agreement.statement_due();
  pair.pause = repeated ? std::min(2 * pair.pause, kLastRepeat) : kFirstRepeat;
  pair.state_at = now + pair.pause;
  const wire::PairStatement statement = pair.agreement.make_statement();
  link_->send_statement(statement);
  if (is_being_written(pair)) return;
  const std::optional<uint32_t> carrier = choose_carrier();
  if (!carrier) return;
  Pair& by = pairs_[*carrier];
  const WorkId id{WorkKind::kStatement, *carrier, by.agreement.epoch(), index};
  if (io_.post_statement(*carrier, statement, encode(id)) != 0) {
    return by.agreement.on_failure({wire::PairReason::kPost});
  }
  ++by.reserved;
  if (io_.reads_statement_later(*carrier)) pair.stated_over = carrier;
}

// Takes the usable pairs in turn, since one of them may be lost without anybody knowing it yet.
std::optional<uint32_t> Recovery::choose_carrier() {
  for (size_t tries = 0; tries < pairs_.size(); ++tries) {
    carrier_ = (carrier_ + 1) % static_cast<uint32_t>(pairs_.size());
    const Pair& pair = pairs_[carrier_];
    if (pair.agreement.carries_statements() && !pair.flushed_at &&
        pair.reserved < kReservedWrites) {
      return carrier_;
    }
  }
  return {};
}

void Recovery::probe(uint32_t index) {
  Pair& pair = pairs_[index];
  const WorkId id{WorkKind::kProbe, index, pair.agreement.epoch(), kReturnProbe};
  if (io_.post_return_probe(index, pair.agreement.epoch(), encode(id)) != 0) {
    return pair.agreement.on_failure({wire::PairReason::kPost});
  }
  pair.reserved += 2;
  pair.agreement.on_probe_posted();
}

}  // namespace gdr::transport
