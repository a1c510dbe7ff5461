// Faults at an event of the protocol ("at_request"), seen by the verbs of both ends.
#include "softhca/datapath/fault_events.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

constexpr auto kNone = static_cast<ibv_wc_status>(31);  // no status, within the enum

// One fault at a moment of the second write with immediate, which a pair of endpoints then makes.
class FaultEvent : public Configured {
 protected:
  struct Outcome {
    bool arrived = false;           // the second write's data
    ibv_wc_status receive = kNone;  // of its immediate; kNone: none came
    ibv_wc_status request = kNone;  // of the write
    ibv_qp_state requester = IBV_QPS_UNKNOWN;
    ibv_qp_state responder = IBV_QPS_UNKNOWN;
  };

  // `fields` are those of the fault besides "at_request"; `end` and `moment` are of that.
  void configure(const std::string& fields, const std::string& end, const std::string& moment) {
    std::string device = end == "requester" ? "softhca0" : "softhca1";
    use(R"({"faults": [{"device": ")" + device + R"(", )" + fields +
        R"(, "at_request": {"opcode": "write_with_imm", "nth": 2, "end": ")" + end +
        R"(", "moment": ")" + moment + R"("}}]})");
  }

  Outcome run(int gpu = -1) {
    pair_ = std::make_unique<Pair>(Options{}, Options{.device = 1});
    from_ = std::make_unique<Memory>(pair_->a, -1, 4096);
    to_ = std::make_unique<Memory>(pair_->b, gpu, 4096);
    for (uint64_t id : {1, 2, 3}) EXPECT_EQ(pair_->b.recv_empty(id), 0);
    write(1);
    EXPECT_EQ(pair_->a.wait().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair_->b.wait().wr_id, 1u);
    EXPECT_TRUE(to_->holds(1));
    write(2);
    Outcome outcome;
    outcome.request = pair_->a.wait().status;
    outcome.arrived = to_->holds(2);
    ibv_wc wc = {};
    if (ibv_poll_cq(pair_->b.cq(), 1, &wc) == 1) outcome.receive = wc.status;
    outcome.requester = pair_->a.state();
    outcome.responder = pair_->b.state();
    return outcome;
  }

  void write(uint8_t seed) {
    from_->fill(seed);
    Request request(IBV_WR_RDMA_WRITE_WITH_IMM, from_->sge(), *to_);
    post(pair_->a, request);
  }

  std::unique_ptr<Pair> pair_;
  std::unique_ptr<Memory> from_;
  std::unique_ptr<Memory> to_;
};

// What becomes of the second write: it arrives or not, its receive and its request complete with a
// status, the QPs of a and b are in a state.
struct FaultCase {
  const char* name;
  std::string fault;  // its fields besides "at_request"
  const char* end;
  const char* moment;
  bool arrived;
  ibv_wc_status receive, request;
  ibv_qp_state a, b;
  int event_of_a = -1, event_of_b = -1;  // -1: none is looked for
  int gpu = -1;                          // of the memory that is written
};

void PrintTo(const FaultCase& one, std::ostream* out) { *out << one.name; }

class FaultAtAMoment : public FaultEvent, public testing::WithParamInterface<FaultCase> {
 protected:
  static void expect_event(Endpoint& end, int event) {
    if (event >= 0) {
      EXPECT_EQ(end.wait_event(), event);
    }
    const ibv_port_state port = event == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    EXPECT_EQ(end.query_port().state, port);
  }
};

TEST_P(FaultAtAMoment, SecondWrite_EndsAsTheTableSays) {
  const FaultCase& one = GetParam();
  configure(one.fault, one.end, one.moment);
  const Outcome outcome = run(one.gpu);
  EXPECT_EQ(outcome.arrived, one.arrived);
  EXPECT_EQ(outcome.receive, one.receive);
  EXPECT_EQ(outcome.request, one.request);
  EXPECT_EQ(outcome.requester, one.a);
  EXPECT_EQ(outcome.responder, one.b);
  expect_event(pair_->a, one.event_of_a);
  expect_event(pair_->b, one.event_of_b);
}

constexpr char kPortDown[] = R"("kind": "port_down")";
constexpr char kQpError[] = R"("kind": "qp_error")";
constexpr auto kDown = IBV_EVENT_PORT_ERR;
constexpr auto kOk = IBV_WC_SUCCESS, kNoAnswer = IBV_WC_RETRY_EXC_ERR, kFlush = IBV_WC_WR_FLUSH_ERR;
constexpr auto kErr = IBV_QPS_ERR, kRts = IBV_QPS_RTS;

std::string status(const std::string& name) {
  return R"("kind": "completion_error", "status": ")" + name + "\"";
}

INSTANTIATE_TEST_SUITE_P(
    Table, FaultAtAMoment,
    testing::Values(FaultCase{"PortBegun", kPortDown, "requester", "begun", false, kNone, kNoAnswer,
                              kErr, kRts, kDown},
                    FaultCase{"PortArrived", kPortDown, "requester", "arrived", true, kNone,
                              kNoAnswer, kErr, kRts, kDown},
                    FaultCase{"PortReceived", kPortDown, "requester", "received", true, kOk,
                              kNoAnswer, kErr, kRts, kDown},
                    FaultCase{"PortReceivedOnGpu", kPortDown, "requester", "received", true, kOk,
                              kNoAnswer, kErr, kRts, kDown, -1, 0},
                    FaultCase{"RespondersPortReceived", kPortDown, "responder", "received", true,
                              kOk, kNoAnswer, kErr, kRts, -1, kDown},
                    FaultCase{"QpReceived", kQpError, "requester", "received", true, kOk, kFlush,
                              kErr, kRts, IBV_EVENT_QP_FATAL},
                    FaultCase{"RespondersQpArrived", kQpError, "responder", "arrived", true, kFlush,
                              kNoAnswer, kErr, kErr, -1, IBV_EVENT_QP_FATAL},
                    FaultCase{"NoAnswerReceived", status("RETRY_EXC_ERR"), "requester", "received",
                              true, kOk, kNoAnswer, kErr, kRts},
                    // The responder stops, as it has sent a NAK.
                    FaultCase{"NakBegun", status("REM_ACCESS_ERR"), "requester", "begun", false,
                              kFlush, IBV_WC_REM_ACCESS_ERR, kErr, kErr, -1,
                              IBV_EVENT_QP_ACCESS_ERR},
                    FaultCase{"FlushArrived", status("WR_FLUSH_ERR"), "requester", "arrived", true,
                              kNone, kFlush, kErr, kRts},
                    FaultCase{"ReceiveBegun", status("LOC_PROT_ERR"), "responder", "begun", false,
                              IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, kErr, kErr},
                    FaultCase{"ReceiveFlushed", status("WR_FLUSH_ERR"), "responder", "arrived",
                              true, kFlush, kNoAnswer, kErr, kErr},
                    FaultCase{"AckLost", R"("kind": "ack_lost", "count": 1)", "requester", "begun",
                              true, kOk, kNoAnswer, kErr, kRts}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(FaultEvent, PortDownWhenAcknowledged_RequestCompletesAndTheNextOneFails) {
  configure(R"("kind": "port_down")", "requester", "acknowledged");
  Outcome outcome = run();
  EXPECT_EQ(outcome.receive, IBV_WC_SUCCESS);
  EXPECT_EQ(outcome.request, IBV_WC_SUCCESS);
  write(3);
  EXPECT_EQ(pair_->a.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(to_->holds(2));
}

TEST_F(FaultEvent, PortDownWhenArrivedOnGpuMemory_TheReceiveStaysPosted) {
  configure(R"("kind": "port_down")", "requester", "arrived");
  Outcome outcome = run(0);
  EXPECT_TRUE(outcome.arrived);
  EXPECT_EQ(outcome.receive, kNone);
  EXPECT_EQ(outcome.request, IBV_WC_RETRY_EXC_ERR);
  ASSERT_EQ(pair_->b.to_state(IBV_QPS_ERR), 0);
  for (uint64_t id : {2, 3}) {
    ibv_wc wc = pair_->b.wait();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, id);
  }
}

TEST_F(FaultEvent, OtherOpcodes_DoNotCount) {
  use(R"({"faults": [{"device": "softhca0", "kind": "port_down", "at_request": {"opcode": "send"}}]})");
  Pair pair({}, {.device = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
  }
  ASSERT_EQ(pair.b.recv_empty(1), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, {})), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(FaultEvent, ReadWhoseDataHasArrived_IsRepeatedAfterThePortReturns) {
  use(R"({"faults": [{"device": "softhca0", "kind": "port_flap", "down_ms": 20,
      "at_request": {"opcode": "read", "moment": "arrived"}},
      {"device": "softhca0", "kind": "client_reregister",
       "at_request": {"opcode": "read", "moment": "arrived", "nth": 2}}]})");
  Buffers pair(64, {.timeout = 18}, {.device = 1});
  pair.to.fill(1);
  post(pair.a, pair.request(IBV_WR_RDMA_READ));
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.from.bytes, pair.to.bytes);
  pollfd events = {pair.a.context()->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&events, 1, 0), 0) << "a request that is sent again counts once";
  post(pair.a, pair.request(IBV_WR_RDMA_READ));
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CLIENT_REREGISTER);
}

TEST_F(FaultEvent, EventOfAnotherPort_TakesDownTheFaultsPort) {
  use(R"({"faults": [{"device": "softhca1", "kind": "port_down",
      "at_request": {"device": "softhca0", "moment": "acknowledged"}}]})");
  Pair pair;
  Endpoint other({.device = 1});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
  EXPECT_EQ(other.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
}

TEST_F(FaultEvent, PortReturnsBeforeTheLastRetry_ReceivedOnce) {
  use(R"({"faults": [{"device": "softhca0", "kind": "port_flap", "down_ms": 20,
      "at_request": {"opcode": "write_with_imm", "moment": "received"}}]})");
  Pair pair({.timeout = 18}, {.device = 1});
  for (uint64_t id : {1, 2}) ASSERT_EQ(pair.b.recv_empty(id), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE_WITH_IMM, {})), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.query_port().state, IBV_PORT_ACTIVE);
  EXPECT_EQ(pair.b.wait().wr_id, 1u);
  EXPECT_TRUE(pair.b.quiet());
  EXPECT_EQ(pair.numbers(), std::pair(1u, 1u)) << "packet numbers";
}

// Two messages of four packets each.
TEST_F(FaultEvent, RequestGoesOnOnGpuMemory_ItsPacketsCountOnce) {
  configure(R"("kind": "client_reregister")", "requester", "received");
  EXPECT_EQ(run(0).request, IBV_WC_SUCCESS);
  EXPECT_EQ(pair_->numbers(), std::pair(8u, 8u));
}

TEST_F(FaultEvent, ErrorOfAReceivedRequest_ItsPacketsCountAtTheResponder) {
  configure(R"("kind": "completion_error", "status": "RETRY_EXC_ERR")", "requester", "received");
  EXPECT_EQ(run().request, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair_->numbers().second, 8u);
}

}  // namespace
}  // namespace softhca_test
