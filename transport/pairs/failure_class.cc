#include "transport/pairs/failure_class.h"

namespace gdr::transport {

FailureClass classify_failure(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
      return FailureClass::kConsequence;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    // Soft-RoCE reports this one where the kernel has removed the route, as for an interface that
    // is set down, and does so before the port's event (rxe_req.c, rxe_requester). If the request
    // itself is wrong, it fails over every pair, also over those that return, and the connection
    // ends by fails_over_every_path().
    case IBV_WC_LOC_QP_OP_ERR:
      return FailureClass::kPairLost;
    default:
      return FailureClass::kConnectionLost;
  }
}

}  // namespace gdr::transport
