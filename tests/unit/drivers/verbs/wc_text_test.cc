#include "drivers/verbs/wc_text.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr::verbs {
namespace {

TEST(WcText, EveryStatusOfRc_HasANameAndAHint) {
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_RNR_RETRY_EXC_ERR; ++status) {
    if (status == IBV_WC_LOC_EEC_OP_ERR || status == IBV_WC_MW_BIND_ERR ||
        status == IBV_WC_BAD_RESP_ERR) {
      continue;  // of reliable datagrams, memory windows and atomics, none of which is used
    }
    EXPECT_STRNE(wc_status_name(static_cast<ibv_wc_status>(status)), "unknown status") << status;
    const std::string hint = wc_status_hint(static_cast<ibv_wc_status>(status));
    EXPECT_NE(hint, "") << status;
    EXPECT_FALSE(hint.ends_with('.')) << "more text follows: " << hint;
  }
}

TEST(WcText, RetryExceeded_NamesTheVariables) {
  std::string hint = wc_status_hint(IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(hint.find("NCCL_IB_TIMEOUT"), std::string::npos);
  EXPECT_NE(hint.find("on RoCE at NCCL_IB_GID_INDEX"), std::string::npos);
  EXPECT_NE(hint.find("Fix: "), std::string::npos);
}

}  // namespace
}  // namespace gdr::verbs
