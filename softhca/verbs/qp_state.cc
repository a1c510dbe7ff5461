#include "softhca/verbs/qp_state.h"

namespace softhca {

namespace {

struct Rule {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;     // for every type
  int required_rc;  // for RC in addition
  int optional;
  int optional_rc = 0;
};

constexpr int kAddress = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kAlternate = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRunning = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | kAlternate;

constexpr Rule kRules[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInit, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, 0, kInit},
    {IBV_QPS_INIT, IBV_QPS_RTR, kAddress, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC, kRunning,
     IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, 0, kRunning, IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, 0, kRunning, IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS | kAlternate,
     IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
};

}  // namespace

bool transition_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET) return mask == 0;
  if (to == IBV_QPS_ERR) return mask == 0 && from != IBV_QPS_RESET;
  for (const Rule& rule : kRules) {
    if (rule.from != from || rule.to != to) continue;
    const bool rc = type == IBV_QPT_RC;
    int required = rule.required | (rc ? rule.required_rc : 0);
    int optional = rule.optional | (rc ? rule.optional_rc : 0);
    return (mask & required) == required && (mask & ~(required | optional)) == 0;
  }
  return false;
}

}  // namespace softhca
