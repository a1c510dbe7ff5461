#include <gtest/gtest.h>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::cuda {
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
}  // namespace gdr::cuda
