#include <gtest/gtest.h>

#include "transport/gpu/cuda_driver.h"

namespace gdr::gpu {
namespace {

TEST(CudaAbsentTest, Load_NoLibcuda_IsUnsupported) {
  Result<CudaDriver> driver = CudaDriver::load();
  if (driver) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(driver.error().code, Code::kUnsupported) << driver.error().text;
  char byte = 0;
  Result<UniqueFd> fd = export_dmabuf(&byte, 1);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace gdr::gpu
