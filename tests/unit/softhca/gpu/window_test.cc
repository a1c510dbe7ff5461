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
  Pair pair;
  Memory from(pair.a, 0, kOddBytes);
  Memory to(pair.b, 1, kOddBytes);
  from.fill(4);
  Request request(IBV_WR_RDMA_WRITE, from.sge(5, kOddBytes - 5), to.address(5), to.rkey());
  ASSERT_EQ(request.post(pair.a.qp()), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  Request head(IBV_WR_RDMA_WRITE, from.sge(0, 5), to.address(), to.rkey());
  ASSERT_EQ(head.post(pair.a.qp()), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(to.mismatch(4), kOddBytes);
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
