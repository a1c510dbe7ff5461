// GPU memory as NCCL allocates it: with the virtual-memory API, accessible to its own device only.
#include <gtest/gtest.h>

#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

constexpr size_t kOddBytes = 65536 + 3;

class VirtualGpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Driver::load();
    hooks().set_virtual_memory(1);
  }
  void TearDown() override { hooks().set_virtual_memory(0); }
};

TEST_F(VirtualGpuMemory, WriteToOtherGpu_Arrives) {
  GpuBuffers pair(1, kOddBytes);
  pair.from.fill(4);
  ASSERT_EQ(
      status_of(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(5, kOddBytes - 5), pair.to, 5)),
      IBV_WC_SUCCESS);
  ASSERT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(0, 5), pair.to)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(pair.to.mismatch(4), kOddBytes);
}

TEST_F(VirtualGpuMemory, Deregistered_ReleasesAllHandles) {
  {
    Pair pair;
    Memory memory(pair.a, 0, kOddBytes);
    EXPECT_GT(hooks().live_handles(), 0u);
  }
  EXPECT_EQ(hooks().live_handles(), 0u);
}

}  // namespace
}  // namespace softhca_test
