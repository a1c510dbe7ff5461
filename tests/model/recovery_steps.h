// Every step that is possible in a state of the model.
#pragma once

#include "tests/model/recovery_model.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// The parts of a PairAgreement that have no accessor.
struct PairAgreementKey {
  static bool stopped(const PairAgreement& pair) {
    return pair.phase_ >= PairAgreement::Phase::kStopped;
  }
  static bool counted(const PairAgreement& pair) {
    return pair.phase_ >= PairAgreement::Phase::kCounted;
  }
  static bool data_path_done(const PairAgreement& pair) { return pair.return_.data_path_done_; }
  static uint32_t peer_seen(const PairAgreement& pair) { return pair.peer_.seen; }
  static bool is_new(const PairAgreement& pair, uint32_t serial) {
    return static_cast<int32_t>(serial - pair.peer_.serial) > 0;
  }
  // For rules that are broken on purpose.
  static void set_peer_step(PairAgreement* pair, uint32_t step) { pair->peer_.step = step; }
  // Everything that decides what it does, beside the serials, the causes and the pauses.
  template <class Add>
  static void add_to(const PairAgreement& pair, Add&& add) {
    const PairReturn& returns = pair.return_;
    add(pair.step()), add(pair.peer_.step), add(pair.peer_.seen);
    add(pair.arrived_), add(pair.counted_arrivals_), add(pair.peer_.arrived);
    add(static_cast<int>(pair.phase_) | returns.data_path_done_ << 3 | returns.port_active_ << 4 |
        pair.due_ << 5 | static_cast<int>(returns.probe_) << 6 | returns.peer_probed_ << 8);
  }
};

}  // namespace gdr::transport

namespace gdr::model {

inline uint8_t all_chunks(const Bounds& bounds) {
  return static_cast<uint8_t>((1 << bounds.chunks) - 1);
}
// Whether the receive of a message is complete.
inline bool is_received(const RecoveryState& state, int message, const Bounds& bounds) {
  return state.receiver.arrived[message] == all_chunks(bounds);
}

// The first buffer that is not complete among those that the receiver has posted; their end where
// all are complete.
inline uint8_t oldest_incomplete(const RecoveryState& state, const Bounds& bounds) {
  uint8_t oldest = 0;
  while (oldest < state.receiver.posted && is_received(state, oldest, bounds)) ++oldest;
  return oldest;
}
// Whether all messages are complete at both ends.
bool is_done(const RecoveryState& state, const Bounds& bounds);

class Steps {
 public:
  using State = RecoveryState;

  Steps(const Bounds& bounds, Mutation mutation, const State& now, RecoveryModel::Successors* next)
      : bounds_(bounds), mutation_(mutation), now_(now), next_(*next) {}

  void all();

 private:
  // Adds a step; the state that is returned is to be changed before the next call.
  State& add(const char* name, int end, int pair = 0, int detail = 0, bool fault = false);
  Pair& pair_of(State& state, int end, int pair) const { return state.end[end].pair[pair]; }
  const Pair& pair_of(const State& state, int end, int pair) const {
    return state.end[end].pair[pair];
  }
  bool is(Mutation mutation) const { return mutation_ == mutation; }
  bool is_called(int end) const;

  // HCAs and network (hca_steps.cc)
  void deliver(int end, int pair);
  void exceed_retries(int end, int pair);
  void fail_something();
  void fail_queue_pair(int end, int pair);
  void fail_link(int pair);
  void lose_receivers_hca(int pair);
  void repair_link(int pair);
  void flap_ports();
  template <class Then>
  void move_to_error(const char* name, int end, int pair, int detail, bool fault, Then&& then);

  // Watchers (watcher_steps.cc)
  void take_event(int end, int pair);
  void stop(int end, int pair);
  void count_without_data_path(int pair);
  void state_step(int end, int pair);
  void read_socket(int end);
  void read_table(int end, int pair);
  void revive(int end, int pair);
  void probe(int end, int pair);
  void check_arrived(int pair);
  void fail_without_pair(int end);
  bool is_on_its_way(int end, int pair) const;
  bool may_carry(const transport::PairAgreement& pair) const;
  void take_statement(State& state, int end, const Stated& statement);

  // Data paths (data_steps.cc)
  void poll_error(int end, int pair);
  void poll_sent(int end, int pair);
  void poll_arrivals(int pair);
  void take_news(int end, int pair);
  void take_over(State& state, int end, int pair);
  void finish_unused(int end, int pair);
  void send();
  void send_again();
  void post_receive();
  bool may_announce() const;
  void announce();
  void move_announcer();
  void move_unconfirmed();
  void announce_again(int pair);
  void confirm(State& state, uint8_t first);
  void poll_confirmation(int from);
  void count_arrivals(State& state, int pair);

  const Bounds& bounds_;
  const Mutation mutation_;
  const State& now_;
  RecoveryModel::Successors& next_;
};

// Posts a work request; on a QP in ERROR it is flushed.
void post(RecoveryState& state, int end, int pair, const Work& work);

inline constexpr transport::PairAgreement::Time kNow{std::chrono::hours(1000)};
inline constexpr transport::PairAgreement::Time kLater{std::chrono::hours(2000)};

}  // namespace gdr::model
