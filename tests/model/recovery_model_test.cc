#include "tests/model/recovery_model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ostream>

namespace gdr::model {
namespace {

// The bounds are those of docs/wire-protocol.md.
constexpr Bounds kOneMessage{.messages = 1, .slots = 1, .outstanding = 1, .epochs = 1};
// A slot is used twice; a QP of the receiver fails, and its HCA reports that.
constexpr Bounds kSlotsInUse{.messages = 2,
                             .slots = 1,
                             .outstanding = 1,
                             .epochs = 1,
                             .tables = false,
                             .sender_fails = false,
                             .silent_failures = false,
                             .link_losses = false,
                             .hca_losses = false,
                             .socket_losses = false};

// Under a sanitizer each step takes many times as long, and what it looks for is the same in all.
#ifdef GDR_MODEL_BRIEF
constexpr size_t kMostStates = 6000;
constexpr size_t kWalks = 100;
constexpr size_t kMutationStates = 1000;
constexpr size_t kMutationWalks = 1000;
#else
constexpr size_t kMostStates = 0;  // all
constexpr size_t kWalks = 1500;
constexpr size_t kMutationStates = 150000;
constexpr size_t kMutationWalks = 40000;
#endif
constexpr bool kBrief = kMostStates != 0;

void expect_correct(const Bounds& bounds, size_t states) {
  const auto found = explore(RecoveryModel(bounds), {.states = kMostStates});
  std::printf("%zu states, %zu steps, %s\n", found.states, found.steps,
              found.complete ? "which are all" : "of more");
  EXPECT_EQ(found.complete, !kBrief);
  EXPECT_GE(found.states, kBrief ? kMostStates : states);
  EXPECT_TRUE(found.violation.empty()) << to_text(found.violation, found.trace);
}

void expect_correct_walks(const Bounds& bounds) {
  const RecoveryModel model(bounds);
  const auto walked = walk(model, /*seed=*/1, kWalks);
  std::printf("%zu walks, %zu steps\n", walked.walks, walked.steps);
  EXPECT_TRUE(walked.violation.empty()) << to_text(walked.violation, walked.trace);
  EXPECT_EQ(walked.walks, kWalks);
}

TEST(RecoveryModel, NoFailure_CompletesWithoutAStatement) {
  Bounds bounds = kOneMessage;
  bounds.failures = 0;
  bounds.moves = false;
  const auto found = explore(RecoveryModel(bounds));
  EXPECT_TRUE(found.complete && found.violation.empty());
  EXPECT_LT(found.states, 20u);
}

TEST(RecoveryModel, StatementsOverTheSocketOnly_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  expect_correct(bounds, 30000);
}

// What was under way over the former socket is lost.
TEST(RecoveryModel, SocketIsReplacedDuringRecoveries_WalksHaveNoViolation) {
  Bounds bounds{.messages = 2, .slots = 1, .outstanding = 1, .failures = 4, .tables = false};
  bounds.socket_losses = false;
  bounds.socket_replacements = true;
  expect_correct_walks(bounds);
}

TEST(RecoveryModel, StatementsOverPairsOnly_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.socket = false;
  bounds.link_losses = false;
  expect_correct(bounds, 30000);
}

TEST(RecoveryModel, PairReturns_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  bounds.epochs = 2;
  bounds.link_losses = false;
  bounds.silent_failures = false;
  expect_correct(bounds, 30000);
}

TEST(RecoveryModel, PairHasReturned_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  bounds.after_a_return = true;
  expect_correct(bounds, 90000);
}

TEST(RecoveryModel, PairReturnsAgain_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  bounds.epochs = 2;
  bounds.after_a_return = true;
  bounds.link_losses = false;
  bounds.silent_failures = false;
  expect_correct(bounds, 310000);
}

// At either end or at both, in every phase of its return, and it returns once more.
TEST(RecoveryModel, PairIsLostWhileItReturns_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  bounds.pairs = 1;
  bounds.epochs = 3;
  bounds.during_a_return = true;
  expect_correct(bounds, 760000);
}

TEST(RecoveryModel, AnyPairIsLostWhileOneReturns_WalksHaveNoViolation) {
  Bounds bounds{.messages = 2, .slots = 1, .outstanding = 1, .failures = 3, .epochs = 3};
  bounds.during_a_return = true;
  expect_correct_walks(bounds);
  bounds.pairs = 3;
  bounds.repairs = 1;
  expect_correct_walks(bounds);
}

TEST(RecoveryModel, AnnouncedAgainWithSlotsInUse_OneFailure_HasNoViolation) {
  Bounds bounds = kSlotsInUse;
  bounds.after_a_loss = true;
  expect_correct(bounds, 30000);
}

// What a slow pair still carries of a slot must not replace a newer one.
TEST(RecoveryModel, ThreePairsWithSlotsInUse_OneFailure_HasNoViolation) {
  Bounds bounds = kOneMessage;
  bounds.tables = false;
  bounds.pairs = 3;
  bounds.messages = 2;
  expect_correct(bounds, 600000);
}

TEST(RecoveryModel, ThreePairsAfterALoss_OneFailure_HasNoViolation) {
  Bounds bounds = kSlotsInUse;
  bounds.pairs = 3;
  bounds.after_a_loss = true;
  expect_correct(bounds, 290000);
}

// Too many states to visit all of them.
TEST(RecoveryModel, ManyFailures_RandomWalksHaveNoViolation) {
  const Bounds large[] = {
      {.pairs = 2, .messages = 3, .slots = 1, .outstanding = 1, .failures = 3, .epochs = 3},
      {.pairs = 3, .messages = 2, .chunks = 2, .slots = 2, .failures = 4, .link_losses = false},
      {.pairs = 3, .messages = 4, .slots = 1, .outstanding = 1, .failures = 2},
      {.pairs = 3,
       .messages = 4,
       .chunks = 2,
       .slots = 2,
       .failures = 4,
       .repairs = 2,
       .epochs = 3},
  };
  for (const Bounds& bounds : large) expect_correct_walks(bounds);
}

// No pair is left until they return. Statements go over the socket in the meantime.
TEST(RecoveryModel, EachEndLosesAnotherPairAtOnce_BothReturnAndAllCompletes) {
  Bounds bounds{.messages = 2, .slots = 1, .outstanding = 1, .epochs = 2, .ports_flap = true};
  expect_correct_walks(bounds);
  bounds.epochs = 3;
  bounds.chunks = 2;
  expect_correct_walks(bounds);
}

// ---- each rule is needed: without it there is a violation

struct BrokenRule {
  Mutation mutation = Mutation::kNone;
  // A move would announce again what is lost.
  Bounds bounds{.slots = 1, .outstanding = 1, .moves = false, .failures = 2};
  bool is_rare = false;  // it takes more walks than a brief run has
};

void PrintTo(const BrokenRule& rule, std::ostream* out) { *out << to_string(rule.mutation); }

std::vector<BrokenRule> broken_rules() {
  Bounds after_a_loss = kSlotsInUse;
  after_a_loss.after_a_loss = true;
  Bounds slots_in_use = kSlotsInUse;
  slots_in_use.pairs = 3;
  const Bounds three_pairs{
      .pairs = 3, .chunks = 2, .slots = 2, .failures = 4, .link_losses = false};
  Bounds without_socket{.pairs = 3, .slots = 1, .outstanding = 1, .failures = 2, .socket = false};
  const Bounds usual = BrokenRule{}.bounds;
  std::vector<BrokenRule> rules{
      {Mutation::kReceiverKeepsQueuePair, usual, true},
      {Mutation::kStatesBeforeCounting, usual, true},
      {Mutation::kSendsAgainBeforeAgreement},
      {Mutation::kSendsEverythingAgain},
      {Mutation::kNeverSendsAgain},
      {Mutation::kNeverAnnouncesAgain},
      {Mutation::kUsesPairTooEarly},
      {Mutation::kGoesDownTooEarly, usual, true},
      {Mutation::kRevivesTooEarly},
      {Mutation::kRevivesBeforeDataPath},
      {Mutation::kSamePacketNumbers},
      {Mutation::kOldCompletionsCount, {.slots = 1, .outstanding = 1, .epochs = 1}, true},
      {Mutation::kArrivedIsNotKept},
      {Mutation::kStatesOnce, without_socket},
      {Mutation::kAsksUntilSeen, three_pairs, true},
      {Mutation::kStatesOverUsablePairs, three_pairs, true},
      {Mutation::kDataPathChecksAlone, usual, true},
      {Mutation::kNoCheckOfArrived},
      {Mutation::kReusesSlotsTooEarly, after_a_loss},
      {Mutation::kReplacesLostAnnouncerTooEarly, slots_in_use, true},
      {Mutation::kMovesUnconfirmed, slots_in_use},
  };
  if (kBrief) std::erase_if(rules, [](const BrokenRule& rule) { return rule.is_rare; });
  return rules;
}

class RecoveryModelMutationTest : public testing::TestWithParam<BrokenRule> {};

// Some are few steps away; others are rare, and many steps away.
TEST_P(RecoveryModelMutationTest, BrokenRule_LeadsToAViolation) {
  const RecoveryModel model(GetParam().bounds, GetParam().mutation);
  const ExplorationLimits limits{.states = kMutationStates, .find_deadlocks = false};
  if (!explore(model, limits).violation.empty()) return;
  const auto walked = walk(model, /*seed=*/5, kMutationWalks);
  EXPECT_FALSE(walked.violation.empty()) << "in " << walked.walks << " walks";
}

INSTANTIATE_TEST_SUITE_P(Rules, RecoveryModelMutationTest, testing::ValuesIn(broken_rules()));

}  // namespace
}  // namespace gdr::model
