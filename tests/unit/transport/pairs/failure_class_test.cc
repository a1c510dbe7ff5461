#include "transport/pairs/failure_class.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

TEST(FailureClass, OfAFailedPathOrHca_IsAPairThatIsLost) {
  for (auto status :
       {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR, IBV_WC_REM_OP_ERR,
        IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_FATAL_ERR, IBV_WC_GENERAL_ERR, IBV_WC_LOC_QP_OP_ERR}) {
    EXPECT_EQ(classify_failure(status), FailureClass::kPairLost) << status;
  }
}

TEST(FailureClass, OfAFlushedRequest_IsAConsequence) {
  EXPECT_EQ(classify_failure(IBV_WC_WR_FLUSH_ERR), FailureClass::kConsequence);
}

TEST(FailureClass, OfAWrongRequest_EndsTheConnection) {
  for (auto status :
       {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_EEC_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_MW_BIND_ERR,
        IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
        IBV_WC_LOC_RDD_VIOL_ERR, IBV_WC_REM_INV_RD_REQ_ERR, IBV_WC_INV_EECN_ERR,
        IBV_WC_INV_EEC_STATE_ERR, IBV_WC_TM_ERR, IBV_WC_TM_RNDV_INCOMPLETE}) {
    EXPECT_EQ(classify_failure(status), FailureClass::kConnectionLost) << status;
  }
  EXPECT_EQ(classify_failure(static_cast<ibv_wc_status>(31)), FailureClass::kConnectionLost);
}

}  // namespace
}  // namespace gdr::transport
