// What is reported to an observer of messages that go through bounce buffers.
#include "tests/unit/transport/recording_observer.h"
#include "tests/unit/transport/staged_transfer.h"

namespace gdr::transport {
namespace {

// The observer is a base, so that it outlives the comms.
struct Recorded {
  RecordingObserver recorder;
};

struct StagedObservedTest : Recorded, StagedTransfer {
  static constexpr size_t kBytes = 3 * wire::kMinChunkBytes;
  int parent = 0;

  StagedObservedTest() : StagedTransfer(recorder.options()) {}

  Request* isend_observed(size_t bytes) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend_observed(source.get(), bytes, 0, *from, &parent, &request));
    return request;
  }
  Request* irecv_observed(size_t bytes) {
    Request* request = nullptr;
    const ReceiveBuffer buffer{target.get(), bytes, 0, to.get()};
    void* parents[] = {&parent};
    EXPECT_TRUE(pair.receiver->irecv_observed(&buffer, 1, parents, &request));
    return request;
  }
};

// NCCL 2.26 finds an event's step by what it is doing, so that none may start after isend.
TEST_F(StagedObservedTest, StagedSend_EventsOfAllChunksStartBeforeTheCopies) {
  hold_copies(true);
  Request* receive = irecv(kBytes);
  Request* send = isend_observed(kBytes);
  ASSERT_EQ(recorder.events.size(), 3u);
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  for (const auto& event : recorder.events) {
    EXPECT_EQ(event.parent, &parent);
    EXPECT_EQ(event.work.bytes, wire::kMinChunkBytes);
    EXPECT_EQ(event.work.qp_number, qp_number(*pair.sender));
    EXPECT_EQ(event.work.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  }
  hold_copies(false);
  EXPECT_TRUE(both_complete(receive, send));
  EXPECT_EQ(recorder.events.size(), 3u);
  EXPECT_TRUE(recorder.each_completed_once());
}

TEST_F(StagedObservedTest, StagedSend_EventsEndAsTheirChunksComplete) {
  Request* receive = irecv(kBytes);
  pair.verbs.hold();
  Request* send = isend_observed(kBytes);
  ASSERT_TRUE(wait_for([&] {
    EXPECT_FALSE(test_once(send).done);
    return pair.verbs.held() == 3;
  }));
  for (size_t done = 1; done <= 2; ++done) {
    EXPECT_EQ(pair.verbs.deliver(), 1);
    EXPECT_FALSE(test_once(send).done);
    EXPECT_EQ(recorder.complete().size(), done);
  }
  pair.verbs.release();
  EXPECT_TRUE(both_complete(receive, send));
  EXPECT_TRUE(recorder.each_completed_once());
}

TEST_F(StagedObservedTest, StagedReceive_EventEndsWithTheLastChunkBeforeItsCopy) {
  Request* receive = irecv_observed(kBytes);
  ASSERT_EQ(recorder.events.size(), 1u);
  EXPECT_EQ(recorder.events[0].work.bytes, kBytes);
  Request* send = isend(kBytes);
  ASSERT_TRUE(completes(send));
  EXPECT_EQ(recorder.events[0].completions, 0);
  hold_copies(true);
  EXPECT_FALSE(test_once(receive).done);
  EXPECT_EQ(recorder.events[0].completions, 1);
  hold_copies(false);
  EXPECT_TRUE(completes(receive));
  EXPECT_EQ(recorder.events[0].completions, 1);
}

}  // namespace
}  // namespace gdr::transport
