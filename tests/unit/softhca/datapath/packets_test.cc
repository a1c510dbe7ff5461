// What both ends of a connection have to agree about: packet numbers, path MTU and read depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <tuple>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

constexpr size_t kMaxBytes = 16384;
constexpr uint32_t kHalf = 1u << 23;  // of the numbers

// Two endpoints with buffers, and a receive that waits at b.
struct Ends : Buffers {
  explicit Ends(const Options& a_options = {}, const Options& b_options = {})
      : Buffers(kMaxBytes, a_options, b_options) {
    from.fill(1);
    EXPECT_EQ(b.recv_empty(7), 0);
  }
  // Returns the status of a request of a. Only a write with immediate consumes the receive at b.
  ibv_wc_status run(ibv_wr_opcode opcode, size_t bytes) {
    return status_of(a, Request(opcode, from.sge(0, bytes), to));
  }
  ibv_wc_status write(size_t bytes) { return run(IBV_WR_RDMA_WRITE_WITH_IMM, bytes); }
  bool arrived(size_t bytes) const {
    return std::equal(from.bytes.begin(), from.bytes.begin() + static_cast<long>(bytes),
                      to.bytes.begin());
  }
  bool untouched() const {
    return std::all_of(to.bytes.begin(), to.bytes.end(), [](uint8_t byte) { return byte == 0; });
  }
};

struct Numbers {
  uint32_t sq_psn;  // of a
  uint32_t rq_psn;  // of b
  size_t bytes;     // written, in packets of 1024
  ibv_wc_status status;
  bool arrives;
};

// Printed where a case fails.
void PrintTo(const Numbers& is, std::ostream* stream) {
  *stream << is.sq_psn << " to " << is.rq_psn << ", " << is.bytes << " bytes";
}

class PacketNumbers : public testing::TestWithParam<Numbers> {};

TEST_P(PacketNumbers, FirstMessage_ArrivesOnlyWithTheExpectedNumber) {
  const Numbers& is = GetParam();
  Ends ends({.timeout = 1, .sq_psn = is.sq_psn}, {.rq_psn = is.rq_psn});
  EXPECT_EQ(ends.write(is.bytes), is.status);
  if (is.arrives) {
    EXPECT_EQ(ends.b.wait().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(ends.arrived(is.bytes));
    return;
  }
  EXPECT_TRUE(ends.untouched());
  if (is.status == IBV_WC_REM_INV_REQ_ERR) {
    EXPECT_EQ(ends.b.wait().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(ends.b.wait_event(), IBV_EVENT_QP_REQ_ERR);
  } else {
    EXPECT_TRUE(ends.b.quiet());
    EXPECT_EQ(ends.b.state(), IBV_QPS_RTS);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, PacketNumbers,
                         testing::Values(Numbers{5, 5, kMaxBytes, IBV_WC_SUCCESS, true},
                                         // Only 24 bits count.
                                         Numbers{0x1000005, 5, 8, IBV_WC_SUCCESS, true},
                                         // Ahead.
                                         Numbers{6, 5, 8, IBV_WC_RETRY_EXC_ERR, false},
                                         Numbers{0, 0xffffff, 0, IBV_WC_RETRY_EXC_ERR, false},
                                         Numbers{kHalf - 1, 0, 8, IBV_WC_RETRY_EXC_ERR, false},
                                         // Behind: all of the message, or only its beginning.
                                         Numbers{4, 5, 0, IBV_WC_SUCCESS, false},
                                         Numbers{4, 5, 1024, IBV_WC_SUCCESS, false},
                                         Numbers{4, 5, 1025, IBV_WC_REM_INV_REQ_ERR, false},
                                         Numbers{0xffffff, 2, 3072, IBV_WC_SUCCESS, false},
                                         Numbers{0, kHalf, 8, IBV_WC_SUCCESS, false}));

TEST(PacketNumber, Behind_OnlyTheFirstPacketsAreLost) {
  Ends ends({.sq_psn = 0xfffffe}, {.rq_psn = 1});
  EXPECT_EQ(ends.write(2048), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.write(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(ends.b.quiet());
  EXPECT_EQ(ends.write(5000), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.b.wait().byte_len, 5000u);
}

TEST(PacketNumber, BehindWithARead_IsNotAnswered) {
  Ends ends({.timeout = 1, .sq_psn = 4}, {.rq_psn = 5});
  EXPECT_EQ(ends.run(IBV_WR_RDMA_READ, 8), IBV_WC_RETRY_EXC_ERR);
}

TEST(PacketNumber, OtherDirection_IsOnItsOwn) {
  Ends ends({.timeout = 1, .sq_psn = 6, .rq_psn = 9}, {.sq_psn = 9, .rq_psn = 5});
  EXPECT_EQ(write_nothing(ends.b), IBV_WC_SUCCESS);
  EXPECT_EQ(write_nothing(ends.a), IBV_WC_RETRY_EXC_ERR);
}

TEST(PacketNumber, AfterTraffic_CountsEveryPacket) {
  Ends ends({.sq_psn = 0xfffffe}, {.rq_psn = 0xfffffe});
  EXPECT_EQ(ends.write(2049), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.run(IBV_WR_RDMA_READ, 1025), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.run(IBV_WR_RDMA_WRITE, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.numbers(), std::pair(4u, 4u));
}

// One end is connected again after 16 packets, the other is not.
TEST(PacketNumber, RequesterConnectedAgain_CountsFromItsNewNumber) {
  for (auto [sq_psn, status, arrives] :
       {std::tuple(0u, IBV_WC_SUCCESS, false), std::tuple(15u, IBV_WC_SUCCESS, false),
        std::tuple(16u, IBV_WC_SUCCESS, true), std::tuple(17u, IBV_WC_RETRY_EXC_ERR, false)}) {
    Ends ends({.timeout = 1});
    ASSERT_EQ(ends.run(IBV_WR_RDMA_WRITE, kMaxBytes), IBV_WC_SUCCESS);
    ASSERT_EQ(ends.a.to_state(IBV_QPS_RESET), 0);
    ends.a.options().sq_psn = sq_psn;
    ends.a.connect(ends.b.address());
    EXPECT_EQ(ends.write(8), status) << sq_psn;
    EXPECT_EQ(ends.b.quiet(), !arrives) << sq_psn;
  }
}

TEST(PacketNumber, ResponderConnectedAgain_ExpectsItsNewNumber) {
  for (auto [rq_psn, status] :
       {std::pair(0u, IBV_WC_RETRY_EXC_ERR), std::pair(16u, IBV_WC_SUCCESS)}) {
    Ends ends({.timeout = 1});
    ASSERT_EQ(ends.run(IBV_WR_RDMA_WRITE, kMaxBytes), IBV_WC_SUCCESS);
    ASSERT_EQ(ends.b.to_state(IBV_QPS_RESET), 0);
    ends.b.options().rq_psn = rq_psn;
    ends.b.connect(ends.a.address());
    EXPECT_EQ(write_nothing(ends.a), status) << rq_psn;
  }
}

TEST(PacketNumber, QpConnectedToItself_HasBoth) {
  for (auto [rq_psn, status] :
       {std::pair(3u, IBV_WC_SUCCESS), std::pair(2u, IBV_WC_RETRY_EXC_ERR)}) {
    Endpoint self({.timeout = 1, .sq_psn = 3, .rq_psn = rq_psn});
    self.connect(self.address());
    EXPECT_EQ(write_nothing(self), status) << rq_psn;
  }
}

TEST(PacketNumber, UnreliableConnection_AdoptsAny) {
  Ends ends({.type = IBV_QPT_UC, .sq_psn = 100}, {.type = IBV_QPT_UC});
  EXPECT_EQ(ends.write(kMaxBytes), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.b.wait().status, IBV_WC_SUCCESS);
}

struct Mtus {
  ibv_mtu a;
  ibv_mtu b;
  ibv_wr_opcode opcode;
  size_t bytes;
  ibv_wc_status status;
};

void PrintTo(const Mtus& is, std::ostream* stream) {
  *stream << is.a << " to " << is.b << ", opcode " << is.opcode << ", " << is.bytes << " bytes";
}

class PathMtu : public testing::TestWithParam<Mtus> {};

TEST_P(PathMtu, Unequal_OnlyMessagesOfOnePacketAtBothEndsPass) {
  const Mtus& is = GetParam();
  Ends ends({.path_mtu = is.a}, {.path_mtu = is.b});
  EXPECT_EQ(ends.run(is.opcode, is.bytes), is.status);
  const bool refused = is.status == IBV_WC_REM_INV_REQ_ERR;
  EXPECT_EQ(ends.b.state(), refused ? IBV_QPS_ERR : IBV_QPS_RTS);
  if (refused) {
    EXPECT_EQ(ends.b.wait_event(), IBV_EVENT_QP_REQ_ERR);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, PathMtu,
    testing::Values(Mtus{IBV_MTU_4096, IBV_MTU_256, IBV_WR_RDMA_WRITE, 256, IBV_WC_SUCCESS},
                    Mtus{IBV_MTU_4096, IBV_MTU_256, IBV_WR_RDMA_WRITE, 257, IBV_WC_REM_INV_REQ_ERR},
                    Mtus{IBV_MTU_256, IBV_MTU_4096, IBV_WR_RDMA_WRITE, 256, IBV_WC_SUCCESS},
                    Mtus{IBV_MTU_256, IBV_MTU_4096, IBV_WR_RDMA_WRITE, 257, IBV_WC_REM_INV_REQ_ERR},
                    Mtus{IBV_MTU_2048, IBV_MTU_1024, IBV_WR_RDMA_WRITE_WITH_IMM, 0, IBV_WC_SUCCESS},
                    Mtus{IBV_MTU_2048, IBV_MTU_1024, IBV_WR_SEND, 1025, IBV_WC_REM_INV_REQ_ERR},
                    Mtus{IBV_MTU_4096, IBV_MTU_256, IBV_WR_RDMA_READ, 256, IBV_WC_SUCCESS},
                    Mtus{IBV_MTU_4096, IBV_MTU_256, IBV_WR_RDMA_READ, 257, IBV_WC_BAD_RESP_ERR},
                    Mtus{IBV_MTU_256, IBV_MTU_4096, IBV_WR_RDMA_READ, 257, IBV_WC_BAD_RESP_ERR}));

// The order of the responder's checks.
TEST(PathMtu, UnequalAndAnotherError_TheFirstOneCounts) {
  Ends ends({.rnr_retry = 0, .path_mtu = IBV_MTU_4096}, {.path_mtu = IBV_MTU_256});
  EXPECT_EQ(ends.write(8), IBV_WC_SUCCESS);  // takes the only receive
  EXPECT_EQ(ends.run(IBV_WR_SEND, 1024), IBV_WC_RNR_RETRY_EXC_ERR);
  Ends keys({.path_mtu = IBV_MTU_4096}, {.path_mtu = IBV_MTU_256});
  EXPECT_EQ(status_of(keys.a, Request(IBV_WR_RDMA_READ, keys.from.sge(0, 1024), keys.to.address(),
                                      keys.to.rkey() + 1)),
            IBV_WC_REM_ACCESS_ERR);
}

TEST(PathMtu, UnequalOverUnreliableConnection_LongMessageIsLost) {
  Ends ends({.type = IBV_QPT_UC, .path_mtu = IBV_MTU_256}, {.type = IBV_QPT_UC});
  EXPECT_EQ(ends.write(257), IBV_WC_SUCCESS);
  EXPECT_TRUE(ends.b.quiet());
  EXPECT_TRUE(ends.untouched());
}

TEST(ReadDepth, NoneAtTheResponder_RemoteInvalidRequest) {
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    Ends ends({}, {.max_dest_rd_atomic = 0});
    EXPECT_EQ(ends.run(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
    EXPECT_EQ(ends.run(opcode, 8), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(ends.b.wait_event(), IBV_EVENT_QP_REQ_ERR);
  }
}

TEST(ReadDepth, NoneAtTheRequester_TheReadIsNeverSent) {
  Ends ends({.max_rd_atomic = 0});
  post(ends.a, Request(IBV_WR_RDMA_READ, ends.from.sge(0, 8), ends.to));
  EXPECT_TRUE(ends.a.quiet());
  ASSERT_EQ(ends.a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(ends.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

// The engine sleeps by then, as nothing else is to be done.
TEST(ReadDepth, NoneAtTheRequester_TheReadIsFlushedWhenThePeerStopsTheQp) {
  Ends ends({.max_rd_atomic = 0});
  post(ends.a, Request(IBV_WR_RDMA_READ, ends.from.sge(0, 8), ends.to));
  EXPECT_TRUE(ends.a.quiet());
  EXPECT_EQ(status_of(ends.b, Request(IBV_WR_RDMA_WRITE, ends.to.sge(0, 8), ends.from.address(),
                                      ends.from.rkey() + 1)),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ends.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace softhca_test
