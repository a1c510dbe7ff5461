#include "drivers/verbs/wc_text.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr::verbs {
namespace {

TEST(WcText, EveryStatus_HasANameAndAHintAtBothEnds) {
  for (int number = IBV_WC_LOC_LEN_ERR; number <= IBV_WC_TM_RNDV_INCOMPLETE; ++number) {
    const auto status = static_cast<ibv_wc_status>(number);
    EXPECT_STRNE(wc_status_name(status), "unknown status") << number;
    for (bool at_receiver : {false, true}) {
      const std::string hint = wc_status_hint(status, at_receiver);
      EXPECT_NE(hint, "") << number;
      EXPECT_FALSE(hint.ends_with('.')) << "more text follows: " << hint;
    }
  }
  // The last value that the enum can have.
  EXPECT_STREQ(wc_status_name(static_cast<ibv_wc_status>(31)), "unknown status");
}

TEST(WcText, HintsOfBothEnds_FitTheirRequests) {
  const struct {
    ibv_wc_status status;
    const char* at_sender;
    const char* at_receiver;
  } cases[] = {{IBV_WC_LOC_LEN_ERR, "larger than the port's maximum", "compare the MTU"},
               {IBV_WC_LOC_ACCESS_ERR, "lacks the access", "The peer wrote to memory"},
               {IBV_WC_REM_ACCESS_ERR, "The peer's buffer", "The peer's tables"},
               {IBV_WC_BAD_RESP_ERR, "firmware of both HCAs", "its own flush"},
               {IBV_WC_RETRY_EXC_ERR, "did not answer", "did not answer"}};
  for (const auto& [status, at_sender, at_receiver] : cases) {
    EXPECT_NE(std::string(wc_status_hint(status)).find(at_sender), std::string::npos) << status;
    EXPECT_NE(std::string(wc_status_hint(status, true)).find(at_receiver), std::string::npos)
        << status;
  }
}

TEST(WcText, RetryExceeded_NamesTheVariablesAndAnAddressThatHasChanged) {
  std::string hint = wc_status_hint(IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(hint.find("NCCL_IB_TIMEOUT"), std::string::npos);
  EXPECT_NE(hint.find("the peer's port has another LID or GID by now"), std::string::npos);
  EXPECT_NE(hint.find("on RoCE at NCCL_IB_GID_INDEX"), std::string::npos);
  EXPECT_NE(hint.find("Fix: "), std::string::npos);
}

}  // namespace
}  // namespace gdr::verbs
