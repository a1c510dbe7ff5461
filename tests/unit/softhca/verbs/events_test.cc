// Completion channels and asynchronous events.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

bool readable(ibv_comp_channel* channel, int timeout_ms) {
  pollfd fd = {channel->fd, POLLIN, 0};
  return poll(&fd, 1, timeout_ms) == 1;
}

TEST(Channel, ArmedForSolicited_OnlySolicitedSendsSignal) {
  Pair pair({}, {.channel = true});
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 1), 0);
  ASSERT_EQ(pair.b.recv_empty(1), 0);
  ASSERT_EQ(pair.b.recv_empty(2), 0);
  Request request(IBV_WR_SEND, {});
  post(pair.a, request);
  EXPECT_FALSE(readable(pair.b.channel(), 20));
  request.wr.send_flags |= IBV_SEND_SOLICITED;
  post(pair.a, request);
  EXPECT_TRUE(readable(pair.b.channel(), 10000));
}

TEST(Channel, CqWithoutOne_CanBeArmed) {
  Endpoint a;
  EXPECT_EQ(ibv_req_notify_cq(a.cq(), 0), 0);
}

TEST(Channel, NonBlocking_NoEventFails) {
  Endpoint a({.channel = true});
  fcntl(a.channel()->fd, F_SETFL, fcntl(a.channel()->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(a.channel(), &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// As read(2) of the kernel's descriptor, so that a program can limit its wait by a timer.
TEST(Channel, BlockedReaderGetsASignal_Interrupted) {
  Endpoint a({.channel = true});
  ASSERT_EQ(a.to_init(), 0);
  ASSERT_EQ(ibv_req_notify_cq(a.cq(), 0), 0);
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction before = {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> returned{false};
  std::thread reader([&] {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    const int rc = ibv_get_cq_event(a.channel(), &cq, &cq_context);
    EXPECT_EQ(errno, EINTR);
    EXPECT_EQ(rc, -1);
    if (rc == 0) ibv_ack_cq_events(cq, 1);
    returned = true;
  });
  for (int i = 0; i < 1000 && !returned; ++i) {
    pthread_kill(reader.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Releases a reader that still waits.
  ASSERT_EQ(a.recv_empty(1), 0);
  ASSERT_EQ(a.to_state(IBV_QPS_ERR), 0);
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(AsyncEvents, ObjectDestroyedUnread_DescriptorIsNotReadable) {
  Pair pair;
  Buffer from(pair.a, 8);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, from.sge(), 0, 1)), IBV_WC_REM_ACCESS_ERR);
  pollfd fd = {pair.b.context()->async_fd, POLLIN, 0};
  ASSERT_EQ(poll(&fd, 1, 10000), 1);
  pair.b.drop_qp();
  EXPECT_EQ(poll(&fd, 1, 0), 0);
}

TEST(Channel, CqDestroyedUnread_DescriptorIsNotReadableUntilTheNextEvent) {
  Pair pair({}, {.channel = true});
  CqPtr other(ibv_create_cq(pair.b.context(), 4, nullptr, pair.b.channel(), 0));
  QpPtr qp = make_qp(pair.b.pd(), other.get());
  ASSERT_EQ(ibv_req_notify_cq(other.get(), 0), 0);
  ASSERT_EQ(pair.b.connect_qp(qp.get(), {qp->qp_num, pair.b.address().lid, {}}), 0);
  ASSERT_EQ(Request(IBV_WR_RDMA_WRITE, {}).post(qp.get()), 0);
  ASSERT_TRUE(readable(pair.b.channel(), 10000));
  qp.reset();
  other.reset();
  EXPECT_FALSE(readable(pair.b.channel(), 0));
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
  ASSERT_EQ(pair.b.recv_empty(1), 0);
  post(pair.a, Request(IBV_WR_SEND, {}));
  ASSERT_TRUE(readable(pair.b.channel(), 10000));
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.b.channel(), &cq, &context), 0);
  EXPECT_EQ(cq, pair.b.cq());
  ibv_ack_cq_events(cq, 1);
}

TEST(AsyncEvents, OfMoreThanAThousandQps_AreAllReported) {
  constexpr int kQps = 1100;
  Endpoint a, b;
  const uint16_t lid = a.address().lid;
  Buffer from(b, 8);
  std::vector<QpPtr> failed;
  for (int i = 0; i < kQps; ++i) {
    QpPtr requester = make_qp(b.pd(), b.cq());
    failed.push_back(make_qp(a.pd(), a.cq()));
    ASSERT_EQ(a.connect_qp(failed.back().get(), {requester->qp_num, lid, {}}), 0);
    ASSERT_EQ(b.connect_qp(requester.get(), {failed.back()->qp_num, lid, {}}), 0);
    ASSERT_EQ(Request(IBV_WR_RDMA_WRITE, from.sge(), 0, 1).post(requester.get()), 0);
    ASSERT_EQ(b.wait().status, IBV_WC_REM_ACCESS_ERR);
  }
  for (int i = 0; i < kQps; ++i) ASSERT_EQ(a.wait_event(), IBV_EVENT_QP_ACCESS_ERR) << i;
}

// A reader may take an event just while its object is destroyed.
TEST(AsyncEvents, ReadWhileObjectsAreDestroyed_EachBelongsToALiveObject) {
  Endpoint watched;
  constexpr int kRounds = 100;
  std::thread reader([&] {
    ibv_async_event event = {};
    while (ibv_get_async_event(watched.context(), &event) == 0) {
      bool last = event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == watched.qp();
      EXPECT_EQ(event.element.qp->context, watched.context());
      ibv_ack_async_event(&event);
      if (last) return;
    }
  });
  Endpoint requester;
  Buffer from(requester, 8);
  auto provoke = [&](ibv_qp* target) {
    QpPtr qp = make_qp(requester.pd(), requester.cq());
    uint16_t lid = watched.address().lid;
    ASSERT_EQ(requester.connect_qp(qp.get(), {target->qp_num, lid, {}}), 0);
    ASSERT_EQ(watched.connect_qp(target, {qp->qp_num, lid, {}}), 0);
    ASSERT_EQ(Request(IBV_WR_RDMA_WRITE, from.sge(), 0, 1).post(qp.get()), 0);
    EXPECT_EQ(requester.wait().status, IBV_WC_REM_ACCESS_ERR);
  };
  for (int i = 0; i < kRounds; ++i) provoke(make_qp(watched.pd(), watched.cq()).get());
  provoke(watched.qp());
  reader.join();
}

}  // namespace
}  // namespace softhca_test
