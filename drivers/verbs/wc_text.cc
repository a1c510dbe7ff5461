#include "drivers/verbs/wc_text.h"

namespace gdr::verbs {
namespace {

constexpr char kNeverPosted[] =
    "The plugin posts no request that can end so: the HCA's driver or firmware is at fault. Fix: "
    "look at `dmesg`, and update both";

struct StatusText {
  ibv_wc_status status;
  const char* name;
  const char* hint;
  const char* at_receiver = nullptr;  // null: as `hint`
};

constexpr StatusText kStatusTexts[] = {
    {IBV_WC_SUCCESS, "SUCCESS", ""},
    {IBV_WC_LOC_LEN_ERR, "LOC_LEN_ERR", "The message is larger than the port's maximum",
     "What the peer sent is longer than this end allows. Fix: compare the MTU of both ports, and "
     "the counts of the collective at both ranks"},
    {IBV_WC_LOC_QP_OP_ERR, "LOC_QP_OP_ERR",
     "The local HCA rejected the work request; on Soft-RoCE, there is no route to the peer"},
    {IBV_WC_LOC_EEC_OP_ERR, "LOC_EEC_OP_ERR", kNeverPosted},
    {IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR",
     "A local buffer is not covered by its registration; for GPU memory, was it freed or remapped "
     "while in use? PCIe ACS or a translating IOMMU between GPU and HCA can cause this, too"},
    {IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR",
     "The queue pair was already in error: the cause is in the first error of this connection, or "
     "in an asynchronous event of the HCA; look for `reports` in the log"},
    {IBV_WC_MW_BIND_ERR, "MW_BIND_ERR", kNeverPosted},
    {IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR",
     "The answer of the peer's HCA does not fit the request. Fix: look at the MTU of both ports "
     "and the firmware of both HCAs",
     "The HCA's answer to its own flush does not fit. Fix: look in dmesg, and update its firmware"},
    {IBV_WC_LOC_ACCESS_ERR, "LOC_ACCESS_ERR", "A local buffer lacks the access it was used with",
     "The peer wrote to memory that is not registered here for that any more; was it freed while "
     "in use?"},
    {IBV_WC_REM_INV_REQ_ERR, "REM_INV_REQ_ERR", "The peer's HCA found the request malformed"},
    {IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR",
     "The peer's buffer is not registered for this access any more; was it freed while in use?",
     "The peer's tables are not registered any more, or the buffer that is flushed here; has the "
     "peer failed before, or was the buffer freed while in use?"},
    {IBV_WC_REM_OP_ERR, "REM_OP_ERR",
     "The peer's HCA could not complete the request; look at the peer's log, and at PCIe ACS and "
     "IOMMU settings there if the buffer is GPU memory"},
    {IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR",
     "The peer did not answer within NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT: the peer process or "
     "host died, a link or switch is down, the peer's port has another LID or GID by now, or the "
     "two ports cannot reach each other. Fix: look at the peer's log, the links of both ports, "
     "subnets and MTU, and on RoCE at NCCL_IB_GID_INDEX and whether the fabric is lossless"},
    {IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR",
     "The peer had no receive posted for too long; it may be stopped or overloaded"},
    {IBV_WC_LOC_RDD_VIOL_ERR, "LOC_RDD_VIOL_ERR", kNeverPosted},
    {IBV_WC_REM_INV_RD_REQ_ERR, "REM_INV_RD_REQ_ERR", kNeverPosted},
    {IBV_WC_REM_ABORT_ERR, "REM_ABORT_ERR", "The peer aborted the operation"},
    {IBV_WC_INV_EECN_ERR, "INV_EECN_ERR", kNeverPosted},
    {IBV_WC_INV_EEC_STATE_ERR, "INV_EEC_STATE_ERR", kNeverPosted},
    {IBV_WC_FATAL_ERR, "FATAL_ERR", "The HCA reports a fatal error; see dmesg"},
    {IBV_WC_RESP_TIMEOUT_ERR, "RESP_TIMEOUT_ERR", "The peer's HCA did not answer in time"},
    {IBV_WC_GENERAL_ERR, "GENERAL_ERR", "The HCA gives no detail; see dmesg and vendor_err"},
    {IBV_WC_TM_ERR, "TM_ERR", kNeverPosted},
    {IBV_WC_TM_RNDV_INCOMPLETE, "TM_RNDV_INCOMPLETE", kNeverPosted},
};

const StatusText& text_of(ibv_wc_status status) {
  for (const StatusText& text : kStatusTexts) {
    if (text.status == status) return text;
  }
  static constexpr StatusText kUnknown{IBV_WC_SUCCESS, "unknown status", kNeverPosted};
  return kUnknown;
}

}  // namespace

const char* wc_status_name(ibv_wc_status status) { return text_of(status).name; }

const char* wc_status_hint(ibv_wc_status status, bool at_receiver) {
  const StatusText& text = text_of(status);
  return at_receiver && text.at_receiver != nullptr ? text.at_receiver : text.hint;
}

const char* event_hint(ibv_event_type type) {
  if (type == IBV_EVENT_QP_ACCESS_ERR) return wc_status_hint(IBV_WC_LOC_ACCESS_ERR, true);
  if (type == IBV_EVENT_QP_REQ_ERR) return wc_status_hint(IBV_WC_LOC_LEN_ERR, true);
  return "Fix: look in dmesg for what the HCA's driver reports";
}

}  // namespace gdr::verbs
