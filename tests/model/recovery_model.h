// The recovery of pairs as a model: the agreement and the rules of the real code
// (transport/recovery/pair_agreement.h, recovery_rules.h) between two data paths, two watchers and
// HCAs that are simulated. What an end may choose (on which pair a chunk goes, when it polls, when
// its watcher runs) and what may go wrong is explored in every order.
//
// The simulated HCAs: a queue pair delivers in order and once, as long as the other one is ready in
// the same epoch and the link is up; what was sent before a queue pair is in ERROR may still
// arrive; an acknowledgement may be lost; completions wait until they are polled.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/model/explorer.h"
#include "tests/model/recovery_state.h"
#include "tests/model/walker.h"

namespace gdr::model {

// How far the exploration goes.
struct Bounds {
  int pairs = 2;
  int messages = 2;
  int chunks = 1;       // of each message
  int slots = 4;        // of the ring
  int outstanding = 2;  // receives
  bool moves = true;    // clear-to-send, from one living pair to another
  int failures = 1;
  int repairs = 0;  // of links
  int epochs = 2;   // of a pair, from 0 on: no pair is revived more often than epochs - 1 times
  // Begins where a further pair was lost after the first buffers had been announced over it, as
  // many as may be outstanding, and was down at both ends: the receiver announces them again.
  bool after_a_loss = false;
  // Begins where pair 0 was lost and has returned: both ends use it in epoch 1. `epochs` counts
  // from there, so that with 1 it is lost once more at most, and with 2 it returns once more.
  bool after_a_return = false;
  // Begins where pair 0 was lost, and nothing but its return is left: it is connected again at
  // either end, and may be lost while it is.
  bool during_a_return = false;
  bool socket = true;  // at first
  bool tables = true;  // statements go over other pairs, too
  // Which failures there are.
  bool queue_pair_errors = true;
  bool sender_fails = true;     // queue pair errors at the sender
  bool silent_failures = true;  // and those that no asynchronous event reports
  bool link_losses = true;
  bool hca_losses = true;  // the receiver's HCA, with completions that nobody has seen
  bool socket_losses = true;
  bool socket_replacements = false;  // with what was under way
  // The only failure: at one moment the sender loses a pair, and the receiver another one. Both
  // return, and the connection waits for that while it has no pair.
  bool ports_flap = false;
};

// Rules that can be broken, so that the exploration shows that each is needed.
enum class Mutation : uint8_t {
  kNone,
  kReceiverKeepsQueuePair,
  kStatesBeforeCounting,
  kSendsAgainBeforeAgreement,
  kSendsEverythingAgain,
  kNeverSendsAgain,
  kNeverAnnouncesAgain,
  kUsesPairTooEarly,
  kGoesDownTooEarly,
  kRevivesTooEarly,
  kRevivesBeforeDataPath,
  kSamePacketNumbers,
  kOldCompletionsCount,
  kArrivedIsNotKept,
  kStatesOnce,
  kAsksUntilSeen,
  kStatesOverUsablePairs,
  kDataPathChecksAlone,
  kNoCheckOfArrived,
  kReusesSlotsTooEarly,
  kReplacesLostAnnouncerTooEarly,
  kMovesUnconfirmed,
};
inline constexpr int kMutations = static_cast<int>(Mutation::kMovesUnconfirmed) + 1;

// How the model behaves then, such as "the receiver is down before all arrivals are counted".
const char* to_string(Mutation mutation);

class RecoveryModel {
 public:
  struct Step {
    const char* name;
    uint8_t end;
    uint8_t pair;
    uint8_t detail;
    bool fault;
  };
  using State = RecoveryState;
  using Successors = std::vector<std::pair<Step, State>>;

  explicit RecoveryModel(const Bounds& bounds, Mutation mutation = Mutation::kNone)
      : bounds_(bounds), mutation_(mutation) {}

  State initial() const;
  void successors(const State& state, Successors* next) const;
  const char* violation(const State& state) const { return state.violation; }
  bool is_end(const State& state) const;
  uint64_t fingerprint(const State& state) const;

 private:
  Bounds bounds_;
  Mutation mutation_;
};

// "receiver's data path counts an arrival on pair 1".
std::string to_string(const RecoveryModel::Step& step);

// They are compiled with the model, since tests are compiled without optimisation.
Exploration<RecoveryModel> explore(const RecoveryModel& model, ExplorationLimits limits = {});
Walk<RecoveryModel> walk(const RecoveryModel& model, uint64_t seed, size_t walks);

// The violation and the steps to it, one a line.
std::string to_text(const std::string& violation, const std::vector<RecoveryModel::Step>& trace);

}  // namespace gdr::model
