#include "transport/data/observed_work.h"

#include "tests/unit/transport/recording_observer.h"

namespace gdr::transport {
namespace {

using Positions = std::vector<size_t>;

struct ObservedWorkTest : testing::Test {
  RecordingObserver recorder;
  std::unique_ptr<ObservedWork> work = ObservedWork::create(recorder.observer(), 2, 3);
  int parent = 0;

  bool post(size_t owner, uint64_t id, uint32_t qp) {
    return work->posted(owner, &parent, {0, id, 0, qp, 1});
  }
};

TEST_F(ObservedWorkTest, Completion_EndsTheOldestWorkOfTheOwnerOnThatQp) {
  EXPECT_TRUE(post(0, 1, 7));
  EXPECT_TRUE(post(0, 1, 8));
  EXPECT_TRUE(post(0, 1, 7));
  EXPECT_TRUE(post(1, 2, 7));
  work->completed(0, 8);
  EXPECT_EQ(recorder.complete(), (Positions{1}));
  work->completed(0, 7);
  EXPECT_EQ(recorder.complete(), (Positions{0, 1}));
  work->completed(0, 7);
  EXPECT_EQ(recorder.complete(), (Positions{0, 1, 2}));
  work->completed(1, 7);
  EXPECT_TRUE(recorder.each_completed_once());
}

// The receiver's: clear-to-send may have moved to another QP since.
TEST_F(ObservedWorkTest, CompletionOnWhicheverQp_EndsTheOwnersWork) {
  EXPECT_TRUE(post(0, 1, 7));
  EXPECT_TRUE(post(1, 2, 7));
  work->completed(0);
  EXPECT_EQ(recorder.complete(), Positions{0});
  EXPECT_TRUE(post(0, 3, 8));
  work->completed(0);
  EXPECT_EQ(recorder.complete(), (Positions{0, 2}));
}

// The completion of work that the observer did not take must not end that of the work behind it.
TEST_F(ObservedWorkTest, DeclinedWork_KeepsItsPlaceInTheOrder) {
  recorder.declines = true;
  EXPECT_FALSE(post(0, 1, 7));
  recorder.declines = false;
  EXPECT_TRUE(post(0, 1, 7));
  work->completed(0, 7);
  EXPECT_EQ(recorder.complete(), Positions{});
  work->completed(0, 7);
  EXPECT_EQ(recorder.complete(), (Positions{1}));
}

// Nothing of a declined message is completed here, so that its places are still taken.
TEST_F(ObservedWorkTest, NextMessage_BeginsAnew) {
  recorder.declines = true;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(post(0, 1, 7));
  recorder.declines = false;
  EXPECT_TRUE(post(0, 2, 7));
  work->completed(0, 7);
  EXPECT_EQ(recorder.complete(), (Positions{3}));
}

}  // namespace
}  // namespace gdr::transport
