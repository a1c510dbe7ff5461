// The line that each fault prints when it happens ("report_faults").
#include "softhca/model/fault_report.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

class FaultReport : public Configured {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override {
    if (captures_) static_cast<void>(printed());
  }
  std::string printed() {
    captures_ = false;
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool captures_ = true;
};

TEST_F(FaultReport, PortDownAtARequest_PrintsItOnceWithThatRequest) {
  use(R"({"report_faults": true, "faults": [
      {"kind": "port_down", "device": "softhca0",
       "at_request": {"opcode": "write", "nth": 2, "moment": "acknowledged"}},
      {"kind": "qp_error", "device": "softhca0", "at_request": {"opcode": "write", "nth": 3}}]})");
  Pair pair({}, {.device = 1});
  for (uint64_t id : {70, 71}) {
    Request request(IBV_WR_RDMA_WRITE, {});
    request.wr.wr_id = id;
    EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(printed(),
            "softhca: fault happens: {\"kind\":\"port_down\",\"device\":\"softhca0\",\"port\":1,"
            "\"opcode\":\"write\",\"moment\":\"acknowledged\",\"wr_id\":71}\n");
}

TEST_F(FaultReport, LostAcknowledgement_PrintsTheFirstRequestThatIsNotAcknowledged) {
  use(R"({"report_faults": true, "faults": [
      {"kind": "ack_lost", "device": "softhca0", "at_request": {"moment": "acknowledged"}}]})");
  Pair pair({}, {.device = 1});
  for (uint64_t id : {70, 71}) {
    Request request(IBV_WR_RDMA_WRITE, {});
    request.wr.wr_id = id;
    post(pair.a, request);
    EXPECT_EQ(pair.a.wait().status, id == 70 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
  }
  EXPECT_EQ(printed(),
            "softhca: fault happens: {\"kind\":\"ack_lost\",\"device\":\"softhca0\",\"port\":1,"
            "\"opcode\":\"write\",\"moment\":\"received\",\"wr_id\":71}\n");
}

TEST_F(FaultReport, RefusedCalls_PrintOneLineAtTheFirst) {
  use(R"({"report_faults": true, "faults": [
      {"kind": "modify_qp_refused", "device": "softhca0", "to": "RTS", "count": 2}]})");
  Endpoint a;
  const Address self = a.address();
  ASSERT_EQ(a.to_init(), 0);
  ASSERT_EQ(a.to_rtr(self), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a.to_rts(), ETIMEDOUT);
  EXPECT_EQ(a.to_rts(), 0);
  EXPECT_EQ(printed(),
            "softhca: fault happens: "
            "{\"kind\":\"modify_qp_refused\",\"device\":\"softhca0\",\"port\":1}\n");
}

TEST_F(FaultReport, NotAskedFor_PrintsNothing) {
  use(R"({"faults": [{"kind": "port_down", "device": "softhca0"}]})");
  Endpoint a;
  EXPECT_EQ(a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(printed(), "");
}

}  // namespace
}  // namespace softhca_test
