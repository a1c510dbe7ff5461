#include "topology/cpu_mask.h"

#include <gmock/gmock.h>

#include <numeric>

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;

TEST(CpuMask, Groups_CountFromTheLast) {
  EXPECT_THAT(cpus_in("1,80000001").value(), ElementsAre(0, 31, 32));
  for (const char* text : {"", ",", "1,", "123456789", "0x1", "g"}) {
    EXPECT_EQ(cpus_in(text), std::nullopt) << text;
  }
}

TEST(CpuMask, List_BecomesTheMaskOfItsCpus) {
  EXPECT_EQ(mask_of_list("0"), "00000001");
  EXPECT_EQ(mask_of_list("0-3,31-32,40"), "00000101,8000000f");
  EXPECT_THAT(cpus_in(mask_of_list("64,2-3").value()).value(), ElementsAre(2, 3, 64));
  std::vector<int> all(kMaxCpu + 1);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(cpus_in(mask_of_list("0-8191").value()), all);
}

TEST(CpuMask, OtherText_IsNoList) {
  for (const char* text : {"", ",", "0,", "3-1", "0-", "-1", "0-8192", "99999999999", "N/A", "0-1 ",
                           "0;1", "0-1-2", "0x1"}) {
    EXPECT_EQ(mask_of_list(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gdr::topology
