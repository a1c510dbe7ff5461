// Wrong uses of verbs fail as on hardware.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

// What is wrong with a request of a for 8 bytes of b's memory, and the status of its completion.
struct WrongRequest {
  const char* what;
  ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  int access_of_a = kAllAccess, access_of_b = kAllAccess;  // of the regions
  int offset = 0, bytes = 8;
  uint32_t lkey_bits = 0, rkey_bits = 0;  // that differ
  unsigned access_of_qp = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
};

constexpr WrongRequest kWrongRequests[] = {
    {.what = "unknown rkey", .rkey_bits = 0x300},
    {.what = "ends behind the region", .offset = 1},
    {.what = "begins before the region", .offset = -1},
    {.what = "begins behind the region", .offset = 8, .bytes = 1},
    {.what = "write without the region's access", .access_of_b = IBV_ACCESS_LOCAL_WRITE},
    {.what = "read without the region's access",
     .opcode = IBV_WR_RDMA_READ,
     .access_of_b = IBV_ACCESS_LOCAL_WRITE},
    {.what = "read without the QP's access",
     .status = IBV_WC_REM_INV_REQ_ERR,
     .opcode = IBV_WR_RDMA_READ,
     .access_of_qp = 0},
    {.what = "unknown lkey", .status = IBV_WC_LOC_PROT_ERR, .lkey_bits = 0x100},
    {.what = "read into a region that is not written",
     .status = IBV_WC_LOC_PROT_ERR,
     .opcode = IBV_WR_RDMA_READ,
     .access_of_a = 0},
};

TEST(Keys, WrongRequest_StopsTheTargetWhereItNotices) {
  for (const WrongRequest& wrong : kWrongRequests) {
    SCOPED_TRACE(wrong.what);
    Pair pair({}, {.access = wrong.access_of_qp});
    Buffer from(pair.a, 8, wrong.access_of_a);
    Buffer to(pair.b, 8, wrong.access_of_b);
    ASSERT_EQ(pair.b.recv_empty(3), 0);
    Request request(wrong.opcode, from.sge(0, wrong.bytes), to.address() + wrong.offset,
                    to.rkey() ^ wrong.rkey_bits);
    request.sge.lkey ^= wrong.lkey_bits;
    EXPECT_EQ(status_of(pair.a, request), wrong.status);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    const bool stops = wrong.status != IBV_WC_LOC_PROT_ERR;
    EXPECT_EQ(pair.b.state(), stops ? IBV_QPS_ERR : IBV_QPS_RTS);
    if (!stops) continue;
    const ibv_wc flushed = pair.b.wait();
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 3u);
    EXPECT_EQ(pair.b.wait_event(), wrong.status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR
                                                                         : IBV_EVENT_QP_REQ_ERR);
  }
}

TEST(Keys, RegionOfOtherDomain_RemoteAccessError) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer foreign(pair.a, 8);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, from.sge(), foreign)),
            IBV_WC_REM_ACCESS_ERR);
}

TEST(Keys, DeregisteredRkey_RemoteAccessError) {
  Buffers pair(8);
  uint32_t rkey = pair.to.rkey();
  pair.to.mr.reset();
  MrPtr other = pair.b.reg(pair.to.bytes.data(), 8);
  EXPECT_NE(other->rkey, rkey);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(), pair.to.address(), rkey)),
            IBV_WC_REM_ACCESS_ERR);
}

TEST(Send, LongerThanReceive_ErrorsAtBothEnds) {
  Pair pair;
  Buffer from(pair.a, 9);
  Buffer to(pair.b, 8);
  ASSERT_EQ(pair.b.recv(4, to.sge()), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, from.sge())), IBV_WC_REM_INV_REQ_ERR);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 4u);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Send, ReceiveWithBadLkey_ErrorsAtBothEnds) {
  Buffers pair(8);
  ibv_sge sge = pair.to.sge();
  sge.lkey = 12345;
  ASSERT_EQ(pair.b.recv(4, sge), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, pair.from.sge())), IBV_WC_REM_OP_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(ReceiverNotReady, NoRetries_Error) {
  Pair pair({.rnr_retry = 0});
  Buffer from(pair.a, 8);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, from.sge())), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(ReceiverNotReady, InfiniteRetries_WaitsForReceiveAndKeepsOrder) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 16);
  Request send(IBV_WR_SEND, from.sge());
  Request write(IBV_WR_RDMA_WRITE, from.sge(), to, 8);
  send.wr.wr_id = 1;
  write.wr.wr_id = 2;
  from.fill(1);
  post(pair.a, send);
  post(pair.a, write);
  EXPECT_TRUE(pair.a.quiet());
  EXPECT_EQ(to.bytes[8], 0) << "the write overtook the send";
  ASSERT_EQ(pair.b.recv(7, to.sge(0, 8)), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 1u);
  EXPECT_EQ(pair.a.wait().wr_id, 2u);
  EXPECT_EQ(pair.b.wait().wr_id, 7u);
}

TEST(NoAnswer, TargetNotConnectedBack_RetryExceeded) {
  Endpoint a;
  Endpoint b;
  Endpoint c;
  a.connect(b.address());
  b.connect(c.address());
  Buffer from(a, 8);
  Buffer to(b, 8);
  EXPECT_EQ(status_of(a, Request(IBV_WR_RDMA_WRITE, from.sge(), to)), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(b.state(), IBV_QPS_RTS);
}

TEST(NoAnswer, WrongLid_RetryExceeded) {
  Endpoint a;
  Endpoint b;
  Address wrong = b.address();
  wrong.lid = static_cast<uint16_t>(wrong.lid + 100);
  a.connect(wrong);
  b.connect(a.address());
  EXPECT_EQ(status_of(a, Request(IBV_WR_RDMA_WRITE, {})), IBV_WC_RETRY_EXC_ERR);
}

TEST(NoAnswer, TargetBecomesReadyInTime_Succeeds) {
  Options patient;
  patient.timeout = 18;
  Endpoint a(patient);
  Endpoint b;
  a.connect(b.address());
  post(a, Request(IBV_WR_RDMA_WRITE, {}));
  EXPECT_TRUE(a.quiet());
  b.connect(a.address());
  EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
}

TEST(NoAnswer, TargetDestroyed_RetryExceededThenFlushed) {
  Pair pair;
  pair.b.drop_qp();
  Request request(IBV_WR_RDMA_WRITE, {});
  post(pair.a, request);
  request.wr.wr_id = 2;
  request.wr.send_flags = 0;
  post(pair.a, request);
  ASSERT_EQ(pair.a.recv_empty(3), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
  int flushed = 0;
  for (int i = 0; i < 2; ++i) flushed += pair.a.wait().status == IBV_WC_WR_FLUSH_ERR ? 1 : 0;
  EXPECT_EQ(flushed, 2);
}

TEST(Flush, MovedToError_OutstandingAndLaterRequestsFlushed) {
  Pair pair;
  ASSERT_EQ(pair.a.recv_empty(1), 0);
  post(pair.a, Request(IBV_WR_SEND, {}));
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.a.recv_empty(2), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 2u);
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_WR_FLUSH_ERR);
}

TEST(Flush, AfterReset_QpWorksAgain) {
  Pair pair;
  ASSERT_EQ(pair.a.recv_empty(1), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_RESET), 0);
  EXPECT_TRUE(pair.a.quiet()) << "a reset QP left completions";
  pair.a.connect(pair.b.address());
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
}

// A responder of UC sends no NAK, and drops what it cannot accept.
TEST(UnreliableConnection, MessageThatTheResponderRefuses_IsLost) {
  const Options unreliable = {.type = IBV_QPT_UC};
  Buffers pair(64, unreliable, unreliable);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(), pair.to.address(),
                                      pair.to.rkey() + 1)),
            IBV_WC_SUCCESS);
  ASSERT_EQ(pair.b.recv(1, pair.to.sge(0, 8)), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, pair.from.sge(0, 9))), IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.b.quiet());
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, pair.from.sge(0, 8))), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  Buffers closed(64, unreliable, {.type = IBV_QPT_UC, .access = 0});
  EXPECT_EQ(status_of(closed.a, closed.request()), IBV_WC_SUCCESS);
  EXPECT_EQ(closed.b.state(), IBV_QPS_RTS);
}

TEST(States, PostSendBeforeRts_Fails) {
  Endpoint a;
  Request request(IBV_WR_RDMA_WRITE, {});
  EXPECT_EQ(request.post(a.qp()), EINVAL);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(request.post(a.qp()), EINVAL);
  ASSERT_EQ(a.to_rtr(a.address()), 0);
  EXPECT_EQ(request.post(a.qp()), EINVAL);
  ASSERT_EQ(a.to_rts(), 0);
  EXPECT_EQ(request.post(a.qp()), 0);
}

TEST(States, PostReceive_AllowedFromInit) {
  Endpoint a;
  EXPECT_EQ(a.recv_empty(1), EINVAL);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.recv_empty(1), 0);
}

TEST(States, SkippedOrIncompleteTransitions_Fail) {
  Endpoint a;
  EXPECT_EQ(a.to_rtr(a.address()), EINVAL);
  EXPECT_EQ(a.to_rts(), EINVAL);
  EXPECT_EQ(a.to_state(IBV_QPS_INIT), EINVAL) << "INIT without port and access flags";
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_state(IBV_QPS_RTR), EINVAL) << "RTR without an address";
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 9;
  EXPECT_EQ(ibv_modify_qp(a.qp(), &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL) << "no such port";
}

TEST(States, AddressOfAnotherPort_Fails) {
  Endpoint a;
  ASSERT_EQ(a.to_init(), 0);
  a.options().port = 0;
  EXPECT_EQ(a.to_rtr({a.qp()->qp_num, 1, {}}), EINVAL) << "no port, as many programs forget";
  a.options().port = 1;
  EXPECT_EQ(a.to_rtr(a.address()), 0);
}

TEST(States, PeerStopsTheQpWhileItIsModified_StaysInError) {
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    Buffer from(pair.a, 8);
    std::atomic<bool> begun{false}, stopped{false};
    std::thread modifier([&] {
      ibv_qp_attr attr = {};
      attr.qp_state = IBV_QPS_RTS;
      for (; !stopped; begun = true) {
        ibv_modify_qp(pair.b.qp(), &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
      }
    });
    while (!begun) std::this_thread::yield();
    EXPECT_NE(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, from.sge(), 0, 1)), IBV_WC_SUCCESS);
    stopped = true;
    modifier.join();
    ASSERT_EQ(pair.b.state(), IBV_QPS_ERR) << round;
  }
}

TEST(States, ErrorFromReset_Fails) {
  Endpoint a;
  EXPECT_EQ(a.to_state(IBV_QPS_ERR), EINVAL);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_state(IBV_QPS_ERR), 0);
}

TEST(Overflow, MoreReceivesThanCreatedFor_PostFails) {
  Pair pair({}, {.recv_wr = 3});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.b.recv_empty(i), 0);
  EXPECT_EQ(pair.b.recv_empty(3), ENOMEM);
  post(pair.a, Request(IBV_WR_SEND, {}));
  EXPECT_EQ(pair.b.recv_empty(3), ENOMEM) << "freed before its completion was polled";
  pair.b.wait();
  EXPECT_EQ(pair.b.recv_empty(3), 0);
}

TEST(Overflow, CompletionQueueFull_EventAndQpInError) {
  Pair pair({.cqe = 2});
  Request request(IBV_WR_RDMA_WRITE, {});
  for (int i = 0; i < 3; ++i) post(pair.a, request);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Register, MemoryThatCannotBePinned_BadAddress) {
  Endpoint a;
  EXPECT_EQ(a.reg(reinterpret_cast<void*>(0x1000), 4096), nullptr);
  EXPECT_EQ(errno, EFAULT);
  void* none = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(a.reg(none, 8192), nullptr);
  EXPECT_EQ(errno, EFAULT);
  mprotect(none, 4096, PROT_READ | PROT_WRITE);
  EXPECT_EQ(a.reg(none, 8192), nullptr) << "the second page is not accessible";
  mprotect(none, 8192, PROT_READ);
  EXPECT_EQ(a.reg(none, 8192), nullptr) << "not writable";
  EXPECT_NE(a.reg(none, 8192, IBV_ACCESS_REMOTE_READ), nullptr);
  munmap(none, 8192);
}

TEST(Register, NoBytesOrAnIovaOfAnotherPlaceInThePage_Fail) {
  Endpoint a;
  std::vector<uint8_t> bytes(8192);
  const auto address = reinterpret_cast<uint64_t>(bytes.data());
  EXPECT_EQ(a.reg(bytes.data(), 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr_iova2(a.pd(), bytes.data(), 8, address + 8, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(MrPtr(ibv_reg_mr_iova2(a.pd(), bytes.data(), 8, address % 4096, kAllAccess)), nullptr);
}

TEST(Register, IndexUsedAgain_OldKeyIsUnknown) {
  Endpoint a;
  uint64_t word = 0;
  std::set<uint32_t> keys;
  for (int i = 0; i < 70000; ++i) {
    ASSERT_TRUE(keys.insert(a.reg(&word, sizeof word)->rkey).second) << i;
  }
}

TEST(Register, RemoteWriteWithoutLocalWrite_Fails) {
  Endpoint a;
  uint64_t word = 0;
  EXPECT_EQ(a.reg(&word, 8, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Register, DmabufWithoutDescriptorOrCuda_Fails) {
  Endpoint a;
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd(), 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF) << "NCCL and others probe for dma-buf like this";
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd(), 8, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "another place in the page";
  uint64_t word = 0;
  EXPECT_EQ(
      ibv_reg_dmabuf_mr(a.pd(), 0, 8, reinterpret_cast<uint64_t>(&word), STDOUT_FILENO, kAllAccess),
      nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Destroy, WhileInUse_Busy) {
  Endpoint a;
  EXPECT_EQ(ibv_destroy_cq(a.cq()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(a.pd()), EBUSY);
}

TEST(Create, CqOfAnotherDevice_Fails) {
  Endpoint a, b({.device = 1});
  EXPECT_EQ(make_qp(a.pd(), b.cq()), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Create, UnsupportedTypeOrOption_NotSupported) {
  Endpoint a;
  EXPECT_EQ(make_qp(a.pd(), a.cq(), IBV_QPT_UD), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_srq_init_attr srq = {};
  EXPECT_EQ(ibv_create_srq(a.pd(), &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_ece ece = {};
  EXPECT_EQ(ibv_query_ece(a.qp(), &ece), EOPNOTSUPP);
}

}  // namespace
}  // namespace softhca_test
