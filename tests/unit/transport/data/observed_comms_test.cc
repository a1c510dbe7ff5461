// What send and receive comms report to an observer.
#include "tests/unit/transport/recording_observer.h"
#include "transport/data/receive_comm.h"
#include "transport/data/send_comm.h"

namespace gdr::transport {
namespace {

using Positions = std::vector<size_t>;

// One end of the pair is observed. What its messages are named as the origin of: kParents[i].
int kParents[wire::kMaxGroup];

struct Observed {
  RecordingObserver recorder;
  CommPair pair;

  Buffer from;
  Buffer to;

  // bytes: of both buffers.
  explicit Observed(size_t bytes, const TransportOptions& with = test_options(),
                    uint32_t max_msg_sz = 1u << 30)
      : pair(recorder.options(with), false, local_socket_pair(), max_msg_sz),
        from(pair.sender_buffer(bytes)),
        to(pair.receiver_buffer(bytes)) {}

  Request* isend(Buffer& buffer, void* parent = &kParents[0]) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend_observed(buffer.data(), buffer.bytes.size(), 0, *buffer.memory,
                                            parent, &request));
    return request;
  }
  Request* isend(void* parent = &kParents[0]) { return isend(from, parent); }
  // Sends a message that is observed, until both ends have completed it.
  void transfer() {
    Request* receive = pair.irecv(to);
    Request* send = isend();
    EXPECT_TRUE(finish(send).done && finish(receive).done);
    EXPECT_TRUE(recorder.each_completed_once());
  }
  Request* irecv(const std::vector<ReceiveBuffer>& buffers, const std::vector<void*>& parents) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.receiver->irecv_observed(Arrays(buffers).get(), parents.data(), &request));
    return request;
  }
};

TEST(ObservedComms, NoObserver_NeitherEndIsObserved) {
  CommPair pair;
  EXPECT_FALSE(pair.sender->is_observed());
  EXPECT_FALSE(pair.receiver->is_observed());
}

TEST(ObservedComms, SmallSend_OneEventFromItsPostingToItsCompletion) {
  Observed test(8);
  Request* receive = test.pair.irecv(test.to);
  test.pair.verbs.hold();
  Request* send = test.isend();
  ASSERT_EQ(test.recorder.events.size(), 1u);
  const RecordingObserver::Event& event = test.recorder.events[0];
  EXPECT_EQ(event.parent, &kParents[0]);
  EXPECT_EQ(event.work.rail, 0);
  EXPECT_EQ(event.work.id, 0u);
  EXPECT_EQ(event.work.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(event.work.qp_number, qp_number(*test.pair.sender));
  EXPECT_EQ(event.work.bytes, 8u);
  EXPECT_FALSE(test_once(send).done);
  EXPECT_EQ(event.completions, 0);
  test.pair.verbs.release();
  EXPECT_TRUE(finish(send).done);
  EXPECT_EQ(event.completions, 1);
  EXPECT_TRUE(finish(receive).done);
}

// More than there are requests, so that each request is used again.
TEST(ObservedComms, ManyMessages_EachHasItsEventAtBothEndsOnce) {
  Observed test(8);
  constexpr uint64_t kCount = 2 * wire::kSlots;
  for (uint64_t i = 0; i < kCount; ++i) {
    Request* receive = test.irecv({test.to.receive(8)}, {&kParents[1]});
    Request* send = test.isend();
    ASSERT_TRUE(finish(receive).done && finish(send).done) << i;
    ASSERT_EQ(test.recorder.events.size(), 2 * (i + 1));
    EXPECT_EQ(test.recorder.events[2 * i].work.id, i);
    EXPECT_EQ(test.recorder.events[2 * i + 1].work.id, i);
  }
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, SplitMessage_OneEventPerQpEndsAsItsQpCompletesAndTheReceiversWithTheLast) {
  Observed test(4 * 128 - 28, options_of_qps(4, /*split=*/true));
  Request* receive = test.irecv({test.to.receive(4 * 128 - 28)}, {&kParents[0]});
  test.pair.verbs.hold();
  Request* send = test.isend();
  ASSERT_EQ(test.recorder.events.size(), 5u);
  for (int i = 0; i < 4; ++i) {
    const ObservedWorkRequest& work = test.recorder.events[static_cast<size_t>(1 + i)].work;
    EXPECT_EQ(work.qp_number, qp_number(*test.pair.sender, i));
    EXPECT_EQ(work.bytes, i < 3 ? 128u : 100u);
  }
  Positions complete;
  for (size_t qp : {2, 0, 3}) {
    test.pair.verbs.deliver_on(qp_number(*test.pair.sender, static_cast<int>(qp)));
    EXPECT_FALSE(test_once(send).done || test_once(receive).done);
    complete.push_back(1 + qp);
    std::sort(complete.begin(), complete.end());
    EXPECT_EQ(test.recorder.complete(), complete);
  }
  test.pair.verbs.release();
  EXPECT_TRUE(finish(send).done && finish(receive).done);
  EXPECT_TRUE(test.recorder.each_completed_once());
}

// The data's write is not signalled; the write of the end confirms it.
TEST(ObservedComms, SendWithSeparateEnd_OneEventOfTheData) {
  Observed test(1000, adaptive_options());
  Request* receive = test.pair.irecv(test.to);
  test.pair.verbs.hold();
  Request* send = test.isend();
  ASSERT_EQ(test.recorder.events.size(), 1u);
  EXPECT_EQ(test.recorder.events[0].work.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(test.recorder.events[0].work.bytes, 1000u);
  EXPECT_EQ(test.pair.verbs.deliver(), 1);
  EXPECT_FALSE(test_once(send).done);
  EXPECT_EQ(test.recorder.events[0].completions, 0);
  test.pair.verbs.release();
  EXPECT_TRUE(finish(send).done && finish(receive).done);
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, SendOfManyChunks_TheFirstOnesAreObserved) {
  constexpr size_t kChunks = 2 * SpreadSends::kMaxObservedChunks;
  Observed test(kChunks * 128, options_of_qps(kChunks, /*split=*/true));
  test.transfer();
  EXPECT_EQ(test.pair.posted_by(*test.pair.sender).size(), kChunks);
  EXPECT_EQ(test.recorder.events.size(), SpreadSends::kMaxObservedChunks);
}

TEST(ObservedComms, SendLargerThanThePortsMessages_OneEventPerChunk) {
  Observed test(10000, test_options(), 4096);
  test.transfer();
  EXPECT_EQ(test.pair.posted_by(*test.pair.sender).size(), 3u);
  ASSERT_EQ(test.recorder.events.size(), 3u);
  EXPECT_EQ(test.recorder.events[0].work.bytes, 4096u);
  EXPECT_EQ(test.recorder.events[2].work.bytes, 1808u);
  EXPECT_EQ(test.to.bytes, test.from.bytes);
}

TEST(ObservedComms, GroupedReceive_OneEventPerBufferUntilItsDataIsThere) {
  Observed test(64);
  Buffer from = test.pair.sender_buffer(8);
  Request* receive = test.irecv({test.to.receive(64, 0), test.to.receive(48, 1),
                                 test.to.receive(32, 2), test.to.receive(16, 3)},
                                {&kParents[0], nullptr, &kParents[2], &kParents[3]});
  ASSERT_EQ(test.recorder.events.size(), 3u);
  const size_t sizes[] = {64, 32, 16};
  for (size_t i = 0; i < 3; ++i) {
    const RecordingObserver::Event& event = test.recorder.events[i];
    EXPECT_EQ(event.parent, &kParents[i == 0 ? 0 : i + 1]);
    EXPECT_EQ(event.work.rail, 0);
    EXPECT_EQ(event.work.id, i == 0 ? 0 : i + 1);
    EXPECT_EQ(event.work.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(event.work.qp_number, qp_number(*test.pair.receiver));
    EXPECT_EQ(event.work.bytes, sizes[i]);
  }
  for (int tag : {2, 1, 0}) {
    Request* send = test.pair.isend(from, tag);
    ASSERT_NE(send, nullptr);
    EXPECT_TRUE(finish(send).done);
    EXPECT_FALSE(test_once(receive).done);
  }
  EXPECT_EQ(test.recorder.complete(), (Positions{0, 1}));
  ASSERT_NE(test.pair.isend(from, 3), nullptr);
  EXPECT_TRUE(finish(receive).done);
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, NullParents_NothingIsObserved) {
  Observed test(8);
  Request* first = test.irecv({test.to.receive(8)}, {nullptr});
  Request* second = nullptr;
  EXPECT_TRUE(
      test.pair.receiver->irecv_observed(Arrays(test.to.receive(8)).get(), nullptr, &second));
  for (Request* receive : {first, second}) {
    ASSERT_NE(receive, nullptr);
    Request* send = test.isend(nullptr);
    EXPECT_TRUE(finish(receive).done && finish(send).done);
  }
  EXPECT_TRUE(test.recorder.events.empty());
}

TEST(ObservedComms, CallsThatHaveToBeRepeated_StartNothing) {
  Observed test(8);
  EXPECT_EQ(test.isend(), nullptr) << "no clear-test.to-send";
  EXPECT_TRUE(test.recorder.events.empty());
  std::vector<Request*> receives;
  for (int i = 0; i < ReceiveComm::kReceives; ++i) {
    receives.push_back(test.irecv({test.to.receive(8)}, {&kParents[0]}));
    ASSERT_NE(receives.back(), nullptr) << i;
  }
  EXPECT_EQ(test.irecv({test.to.receive(8)}, {&kParents[0]}), nullptr) << "too many";
  EXPECT_EQ(test.recorder.events.size(), size_t{ReceiveComm::kReceives});
}

TEST(ObservedComms, ObserverDeclines_NothingCompletesAndTheNextMessageIsObserved) {
  Observed test(4 * 128, options_of_qps(4, /*split=*/true));
  for (bool declines : {true, false}) {
    test.recorder.declines = declines;
    test.recorder.events.clear();
    Request* receive = test.irecv({test.to.receive(4 * 128)}, {&kParents[0]});
    Request* send = test.isend();
    EXPECT_TRUE(finish(receive).done && finish(send).done);
    ASSERT_EQ(test.recorder.events.size(), 5u);
    EXPECT_EQ(test.recorder.complete().size(), declines ? 0u : 5u);
  }
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, TransferFails_EventsEndOnceWithTheFailingTest) {
  Observed test(4 * 128, options_of_qps(4, /*split=*/true));
  Request* receive = test.irecv({test.to.receive(4 * 128)}, {&kParents[0]});
  test.pair.verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR, 1);
  Request* send = test.isend();
  ASSERT_EQ(test.recorder.events.size(), 5u);
  EXPECT_FALSE(finish(send).alive);
  EXPECT_EQ(test.recorder.complete(), (Positions{1, 2, 3, 4})) << "all of the sender's";
  EXPECT_TRUE(wait_for([&] { return !test_once(receive).alive; }));
  EXPECT_TRUE(test.recorder.each_completed_once());
  test.pair.sender.reset();
  test.pair.receiver.reset();
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, PostingFails_EventEndsWithTheComm) {
  Observed test(8);
  ASSERT_NE(test.pair.irecv(test.to), nullptr);
  test.pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  Request* send = nullptr;
  EXPECT_FALSE(test.pair.sender->isend_observed(test.from.data(), 8, 0, *test.from.memory,
                                                &kParents[0], &send));
  ASSERT_EQ(test.recorder.events.size(), 1u);
  test.from.memory.reset();
  test.pair.sender.reset();
  EXPECT_TRUE(test.recorder.each_completed_once());
}

TEST(ObservedComms, ClosedWhileRequestsAreOpen_TheirEventsEnd) {
  Observed test(8);
  ASSERT_NE(test.irecv({test.to.receive(8), test.to.receive(8, 1)}, {&kParents[0], &kParents[1]}),
            nullptr);
  test.pair.verbs.hold();
  ASSERT_NE(test.isend(), nullptr);
  EXPECT_EQ(test.recorder.complete(), Positions{});
  test.from.memory.reset();
  test.pair.sender.reset();
  EXPECT_EQ(test.recorder.complete(), Positions{2});
  test.to.memory.reset();
  test.pair.receiver.reset();
  EXPECT_TRUE(test.recorder.each_completed_once());
}

}  // namespace
}  // namespace gdr::transport
