#include "tests/model/recovery_model.h"

#include <algorithm>
#include <cstdlib>

#include "tests/model/recovery_steps.h"

namespace gdr::model {

using transport::PairAgreement;

const char* to_string(Mutation mutation) {
  static constexpr const char* kTexts[kMutations] = {
      "none",
      "the receiver is down without moving its QP to ERROR",
      "the receiver is down before all arrivals are counted",
      "the sender sends again once it is down itself",
      "the sender sends again what has arrived",
      "the sender does not send again",
      "the receiver does not announce again",
      "the sender uses a pair that is ready at its end only",
      "an end goes down before the other is ready in that epoch",
      "an end revives a pair before the other is down",
      "an end revives a pair before its data path has taken over",
      "packets of an earlier epoch are accepted",
      "completions of an earlier epoch count",
      "the count is not in the statement of the next epoch",
      "statements are not repeated",
      "statements are repeated only until they are seen",
      "statements go over pairs that were probed only",
      "only the data path checks what has arrived",
      "nobody checks what has arrived",
      "slots are filled again before what was announced is confirmed",
      "a lost announcer is replaced before it is down at both ends",
      "a living announcer is replaced before its last write is confirmed",
  };
  return kTexts[static_cast<int>(mutation)];
}

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// Both ends of a pair state their steps until each knows what the other knows.
void exchange_statements(PairAgreement* sender, PairAgreement* receiver) {
  for (int i = 0; i < 3; ++i) {
    require(receiver->on_statement(sender->make_statement(), kNow).has_value());
    require(sender->on_statement(receiver->make_statement(), kNow).has_value());
  }
}

// The pair is lost at both ends, before anything arrived over it, and both data paths have finished
// with it.
void lose(RecoveryState* state, int pair) {
  PairAgreement* sender = &state->end[kSender].pair[pair].agreement;
  PairAgreement* receiver = &state->end[kReceiver].pair[pair].agreement;
  for (PairAgreement* end : {sender, receiver}) {
    end->on_failure({transport::wire::PairReason::kQueuePair});
    end->on_stopped(kNow);
  }
  receiver->on_counted(0, kNow);
  exchange_statements(sender, receiver);
  for (PairAgreement* end : {sender, receiver}) end->on_data_path_done();
  for (End& end : state->end) {
    end.pair[pair].error = end.pair[pair].taken_over = true;
    end.pair[pair].uses = false;
  }
  state->receiver.announcing = Announcing::kDown;
}

// Both ends use it again.
void return_to_use(RecoveryState* state, int pair) {
  PairAgreement* sender = &state->end[kSender].pair[pair].agreement;
  PairAgreement* receiver = &state->end[kReceiver].pair[pair].agreement;
  for (PairAgreement* end : {sender, receiver}) end->on_revived();
  exchange_statements(sender, receiver);
  for (PairAgreement* end : {sender, receiver}) {
    end->returns().on_probe_posted();
    end->on_probe_completed(IBV_WC_SUCCESS, kNow);
    end->returns().on_peer_probed();
    require(end->usable());
  }
  for (End& end : state->end) {
    end.pair[pair].error = end.pair[pair].taken_over = false;
    end.pair[pair].uses = true;
    end.pair[pair].epoch = 1;
  }
  state->receiver.announcing = Announcing::kFreely;
}

// The first buffers were announced over a further pair and have arrived. That pair is down at both
// ends.
void announce_over_lost_pair(RecoveryState* state, int buffers) {
  Receiver& receiver = state->receiver;
  for (int buffer = 0; buffer < buffers; ++buffer) {
    state->sender.ring[buffer] = static_cast<uint8_t>(buffer + 1);
  }
  receiver.posted = receiver.announced = static_cast<uint8_t>(buffers);
  receiver.announcing = Announcing::kDown;
}

}  // namespace

RecoveryModel::State RecoveryModel::initial() const {
  State state;
  for (int end : {kSender, kReceiver}) {
    for (int pair = 0; pair < bounds_.pairs; ++pair) {
      const auto role =
          end == kSender ? transport::PairEnd::kSender : transport::PairEnd::kReceiver;
      state.end[end].pair[pair].agreement =
          transport::PairAgreement(role, static_cast<uint16_t>(pair));
    }
  }
  state.link.fill(true);
  state.socket = bounds_.socket;
  if (bounds_.after_a_loss) {
    announce_over_lost_pair(&state,
                            std::min({bounds_.outstanding, bounds_.messages, bounds_.slots}));
  }
  if (bounds_.after_a_return || bounds_.during_a_return) lose(&state, 0);
  if (bounds_.during_a_return) state.failed_pairs = 1;
  if (bounds_.after_a_return) return_to_use(&state, 0);
  return state;
}

bool RecoveryModel::is_end(const State& state) const {
  return state.outcome != Outcome::kNone || is_done(state, bounds_);
}

void RecoveryModel::successors(const State& state, Successors* next) const {
  Steps(bounds_, mutation_, state, next).all();
}

std::string to_string(const RecoveryModel::Step& step) {
  std::string text = step.fault ? "FAULT " : "";
  text += step.end == kSender ? "sender: " : "receiver: ";
  return text + step.name + ", pair " + std::to_string(step.pair) + ", " +
         std::to_string(step.detail);
}

Exploration<RecoveryModel> explore(const RecoveryModel& model, ExplorationLimits limits) {
  return Explorer(model, limits).run();
}

Walk<RecoveryModel> walk(const RecoveryModel& model, uint64_t seed, size_t walks) {
  return walk_randomly(model, seed, walks);
}

std::string to_text(const std::string& violation, const std::vector<RecoveryModel::Step>& trace) {
  std::string text = violation + "\n";
  for (const RecoveryModel::Step& step : trace) text += "  " + to_string(step) + "\n";
  return text;
}

}  // namespace gdr::model
