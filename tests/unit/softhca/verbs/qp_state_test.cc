#include "softhca/verbs/qp_state.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRtrReliable = kRtr | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

TEST(QpState, RequiredAttributeMissing_NotAllowed) {
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit & ~IBV_QP_PORT));
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr));
}

TEST(QpState, AttributeThatDoesNotBelong_NotAllowed) {
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit | IBV_QP_AV));
  EXPECT_FALSE(transition_allowed(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kRtrReliable));
}

TEST(QpState, RunningUnreliableQp_HasNoTimersOrRetries) {
  for (int mask : {IBV_QP_MIN_RNR_TIMER, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_PORT}) {
    EXPECT_FALSE(transition_allowed(IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, mask)) << mask;
    EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, mask)) << mask;
  }
  EXPECT_FALSE(transition_allowed(IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER));
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER));
}

TEST(QpState, ToErrorFromReset_NotAllowed) {
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_ERR, IBV_QP_STATE));
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_ERR, IBV_QP_STATE));
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RESET, IBV_QP_STATE));
}

TEST(QpState, CurrentStateOfQpThatStops_NotAllowed) {
  constexpr int kMask = IBV_QP_STATE | IBV_QP_CUR_STATE;
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR, kMask));
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RESET, kMask));
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, kMask));
}

TEST(QpState, UnknownAttribute_NotAllowed) {
  constexpr int kUnknown = 1 << 30;
  for (ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_RTS}) {
    EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, to, IBV_QP_STATE | kUnknown)) << to;
  }
}

}  // namespace
}  // namespace softhca
