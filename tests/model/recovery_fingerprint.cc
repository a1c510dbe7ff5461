#include <algorithm>

#include "tests/model/recovery_steps.h"

namespace gdr::model {
namespace {

using transport::PairAgreementKey;

// Mixes numbers into 64 bits.
class Mixer {
 public:
  void operator()(uint64_t value) {
    hash_ ^= value + 0x9e3779b97f4a7c15;
    hash_ *= 0xff51afd7ed558ccd;
    hash_ ^= hash_ >> 32;
  }
  uint64_t result() {
    hash_ ^= hash_ >> 29;
    hash_ *= 0xc4ceb9fe1a85ec53;
    return hash_ ^ hash_ >> 32;
  }

 private:
  uint64_t hash_ = 0x243f6a8885a308d3;
};

// The order of pairs in which a state is described: states that differ only by the names of their
// pairs behave alike.
using Order = std::array<uint8_t, kMaxPairs>;

class Describer {
 public:
  Describer(const RecoveryState& state, const Bounds& bounds, const Order& order)
      : state_(state), bounds_(bounds), order_(order) {
    for (int i = 0; i < bounds.pairs; ++i) place_[order[i]] = static_cast<uint8_t>(i);
  }

  uint64_t run() {
    if (state_.outcome != Outcome::kNone) return static_cast<uint64_t>(state_.outcome);
    if (is_done(state_, bounds_)) return describe_what_may_arrive();
    for (int i = 0; i < bounds_.pairs; ++i) {
      const int pair = order_[i];
      for (int end : {kSender, kReceiver}) add_pair(end, pair);
      add_data_of(pair);
    }
    for (int end : {kSender, kReceiver}) {
      add_(state_.end[end].socket.size());
      for (const Stated& stated : state_.end[end].socket) add_statement(end, stated);
    }
    add_data();
    add_(state_.socket | state_.lost_in_hca << 1 | static_cast<int>(state_.outcome) << 2 |
         state_.failures << 8 | state_.repairs << 16);
    return add_.result();
  }

 private:
  // All messages are complete; late writes are all that can still happen.
  uint64_t describe_what_may_arrive() {
    for (int i = 0; i < bounds_.pairs; ++i) {
      for (int end : {kSender, kReceiver}) {
        const Pair& at = pair_of(end, order_[i]);
        add_(at.error | at.epoch << 8 | state_.link[order_[i]] << 16);
        for (const Work& work : at.sent) add_(static_cast<uint64_t>(work.kind));
      }
    }
    return add_.result();
  }

  const Pair& pair_of(int end, int pair) const { return state_.end[end].pair[pair]; }

  void add_pair(int end, int pair) {
    const Pair& at = pair_of(end, pair);
    const Pair& other = pair_of(1 - end, pair);
    PairAgreementKey::add_to(at.agreement, add_);
    const bool unknown = !at.agreement.lost();
    add_(at.error | (at.error_completion && unknown) << 1 | (at.event && unknown) << 2 |
         at.uses << 3 | at.taken_over << 4 | at.epoch << 8);
    // Nothing arrives any more where both are in ERROR.
    const bool dead = at.error && other.error;
    add_(dead ? 0 : at.sent.size());
    for (const Work& work : at.sent) {
      if (!dead) add_work(end, work);
    }
    add_(at.unpolled.size());
    for (const WorkKind kind : at.unpolled) add_(static_cast<uint64_t>(kind));
    add_statement(1 - end, at.table);
  }

  void add_work(int end, const Work& work) {
    add_(static_cast<uint64_t>(work.kind) | work.chunk.message << 8 | work.chunk.number << 16 |
         static_cast<uint64_t>(work.first) << 24 | static_cast<uint64_t>(work.end) << 32);
    if (work.kind == WorkKind::kStatement) add_statement(end, work.statement);
  }

  // A statement of an end. Serials only count by their order, and old statements not at all.
  void add_statement(int end, const Stated& stated) {
    if (!is_new(end, stated)) return add_(0);
    add_((1 + rank(end, stated)) | stated.asks << 6 | place_[stated.pair] << 8 | stated.step << 16 |
         static_cast<uint64_t>(stated.seen) << 24 | static_cast<uint64_t>(stated.arrived) << 32);
  }

  bool is_new(int end, const Stated& stated) const {
    return stated.serial != 0 &&
           PairAgreementKey::is_new(pair_of(1 - end, stated.pair).agreement, stated.serial);
  }

  // How many different statements about the same pair are older, and not known to the other end.
  uint64_t rank(int end, const Stated& stated) const {
    uint64_t older = 0;
    for_each_statement(end, [&](const Stated& other) {
      if (other.pair == stated.pair && other.serial < stated.serial && is_new(end, other)) {
        older |= uint64_t{1} << other.serial % 64;
      }
    });
    return static_cast<uint64_t>(__builtin_popcountll(older));
  }

  template <class Visit>
  void for_each_statement(int end, Visit&& visit) const {
    for (const Stated& stated : state_.end[end].socket) visit(stated);
    for (int pair = 0; pair < bounds_.pairs; ++pair) {
      visit(pair_of(1 - end, pair).table);
      for (const Work& work : pair_of(end, pair).sent) {
        if (work.kind == WorkKind::kStatement) visit(work.statement);
      }
    }
  }

  void add_data_of(int pair) {
    const Sender& sender = state_.sender;
    add_(state_.link[pair] | (state_.failed_pairs >> pair & 1) << 1 |
         sender.acknowledged[pair] << 8 | sender.posted[pair].size() << 16 |
         static_cast<uint64_t>(state_.receiver.counted[pair]) << 24);
    for (const Chunk& chunk : sender.posted[pair]) add_(chunk.message << 8 | chunk.number);
    add_(state_.receiver.cq[pair].size());
    for (const Arrival& arrival : state_.receiver.cq[pair]) {
      add_(arrival.chunk.message << 8 | arrival.chunk.number | arrival.epoch << 16);
    }
  }

  void add_data() {
    const Sender& sender = state_.sender;
    const Receiver& receiver = state_.receiver;
    const bool announces = receiver.announcing != Announcing::kDown;
    const uint64_t announcer = announces ? place_[receiver.announcer] : 0;
    add_(sender.sent | receiver.posted << 8 | receiver.announced << 16 |
         static_cast<uint64_t>(receiver.announcing) << 24 | announcer << 32);
    for (int message = 0; message < bounds_.messages; ++message) {
      add_(sender.incomplete[message] | sender.again[message] << 8 |
           receiver.arrived[message] << 16);
    }
    for (int slot = 0; slot < bounds_.slots; ++slot) add_(sender.ring[slot]);
  }

  const RecoveryState& state_;
  const Bounds& bounds_;
  const Order& order_;
  std::array<uint8_t, kMaxPairs> place_{};
  Mixer add_;
};

}  // namespace

uint64_t RecoveryModel::fingerprint(const State& state) const {
  Order order{0, 1, 2};
  uint64_t least = UINT64_MAX;
  do {
    least = std::min(least, Describer(state, bounds_, order).run());
  } while (std::next_permutation(order.begin(), order.begin() + bounds_.pairs));
  return least;
}

}  // namespace gdr::model
