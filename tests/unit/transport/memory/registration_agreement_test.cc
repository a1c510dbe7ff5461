#include "transport/memory/registration_agreement.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>
#include <vector>

#include "transport/wire/wire.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::kMemoryAnswers;
using wire::kMemoryAsks;
using wire::kMemoryStages;

constexpr GpuAllocation kBuffers{0x7000000, 4 << 20};
constexpr GpuAllocation kUsers{0x9000000, 1 << 20};
constexpr GpuAllocation kUsersOfSameSize{0xa000000, 4 << 20};
constexpr milliseconds kForever{600000};  // a test that waits for this fails by its time limit

struct AgreementTest : testing::Test {
  std::vector<uint32_t> sent;

  void open(RegistrationAgreement* agreement, bool peer_stages = false) {
    agreement->open(peer_stages, [this](uint32_t flags) { sent.push_back(flags); });
  }
};

TEST_F(AgreementTest, FirstAllocation_AllOfItIsOwn) {
  RegistrationAgreement agreement(false);
  auto first = agreement.claim(kBuffers, false);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(agreement.claim(kBuffers, false), first);
  EXPECT_EQ(agreement.claim(kUsers, false), nullptr);
}

TEST_F(AgreementTest, LastOwnRegistrationEnds_TheNextIsOwn) {
  RegistrationAgreement agreement(false);
  agreement.claim(kBuffers, false).reset();
  auto next = agreement.claim(kUsers, false);
  EXPECT_NE(next, nullptr);
  EXPECT_EQ(agreement.claim(kBuffers, false), nullptr) << "its address may be a user's by now";
}

// With PXN a process sends for the other ranks of its machine, and has a buffer for each.
TEST_F(AgreementTest, AnotherAllocationOfTheSameSize_IsOwnOnlyWhereRanksRelay) {
  RegistrationAgreement agreement(false);
  auto first = agreement.claim(kBuffers, true);
  EXPECT_EQ(agreement.claim(kUsersOfSameSize, false), nullptr);
  auto relayed = agreement.claim(kUsersOfSameSize, true);
  EXPECT_NE(relayed, nullptr);
  EXPECT_EQ(agreement.claim(kUsersOfSameSize, false), relayed);
  EXPECT_EQ(agreement.claim(kUsers, true), nullptr);
}

TEST_F(AgreementTest, OwnBuffers_PeerLearnsTheFirstStateAndEveryChange) {
  RegistrationAgreement agreement(false);
  open(&agreement);
  agreement.note_own(false);
  agreement.note_own(false);
  EXPECT_THAT(sent, ElementsAre(0u));
  agreement.note_own(true);
  agreement.note_own(false);
  agreement.note_own(true);
  EXPECT_THAT(sent, ElementsAre(0u, kMemoryStages));
  EXPECT_TRUE(agreement.stages());
}

TEST_F(AgreementTest, HandshakeSaysThatThePeerStages_NothingIsAsked) {
  RegistrationAgreement agreement(false);
  open(&agreement, /*peer_stages=*/true);
  EXPECT_EQ(agreement.peer_stages(), true);
  EXPECT_THAT(sent, IsEmpty());
}

// The peer's last frame may still be under way when NCCL registers the first user's buffer.
TEST_F(AgreementTest, PeerWasDirect_ItIsAskedOnceAndItsAnswerCounts) {
  for (uint32_t staged : {0u, kMemoryStages}) {
    sent.clear();
    RegistrationAgreement agreement(false, kForever);
    std::promise<void> asked;
    agreement.open(false, [&](uint32_t flags) {
      sent.push_back(flags);
      asked.set_value();
    });
    agreement.on_frame(0);
    auto waiting = std::async(std::launch::async, [&] { return agreement.peer_stages(); });
    asked.get_future().wait();
    agreement.on_frame(kMemoryAnswers | staged);
    EXPECT_EQ(waiting.get(), staged != 0);
    EXPECT_EQ(agreement.peer_stages(), staged != 0);
    EXPECT_THAT(sent, ElementsAre(kMemoryAsks));
  }
}

TEST_F(AgreementTest, PeerAsks_IsAnsweredAndItsStateIsFinal) {
  RegistrationAgreement agreement(true, kForever);
  open(&agreement);
  agreement.on_frame(kMemoryAsks);
  EXPECT_THAT(sent, ElementsAre(kMemoryAnswers | kMemoryStages));
  EXPECT_EQ(agreement.peer_stages(), false) << "it does not wait";
}

TEST_F(AgreementTest, NoAnswer_TheLastStateCountsOrNothingIsKnown) {
  RegistrationAgreement silent(false, milliseconds(0));
  open(&silent);
  EXPECT_EQ(silent.peer_stages(), std::nullopt);
  RegistrationAgreement known(false, milliseconds(0));
  open(&known);
  known.on_frame(0);
  EXPECT_EQ(known.peer_stages(), false);
}

// With kForever, a wait that does not end would end the test by its time limit.
TEST_F(AgreementTest, SocketEnds_NobodyWaitsAndTheLastStateCounts) {
  RegistrationAgreement agreement(false, kForever);
  std::promise<void> asked;
  agreement.open(false, [&](uint32_t) { asked.set_value(); });
  agreement.on_frame(0);
  auto waiting = std::async(std::launch::async, [&] { return agreement.peer_stages(); });
  asked.get_future().wait();
  agreement.close();
  EXPECT_EQ(waiting.get(), false);
  RegistrationAgreement unknown(false, kForever);
  open(&unknown);
  unknown.close();
  EXPECT_EQ(unknown.peer_stages(), std::nullopt);
  EXPECT_TRUE(sent.empty());
}

TEST_F(AgreementTest, PeerStagesLater_CountsAlthoughItHadAnswered) {
  RegistrationAgreement agreement(false, kForever);
  open(&agreement);
  agreement.on_frame(kMemoryAnswers);
  EXPECT_EQ(agreement.peer_stages(), false);
  agreement.on_frame(kMemoryStages);
  EXPECT_EQ(agreement.peer_stages(), true);
}

}  // namespace
}  // namespace gdr::transport
