#include <gtest/gtest.h>

#include "softhca/gpu/copier.h"
#include "tests/fakes/cuda/fake_driver.h"

namespace softhca {
namespace {

// A single test, because libcuda cannot be unloaded again.
TEST(CopierAbsentTest, Get_LibcudaLoadedLater_WorksFromThenOn) {
  EXPECT_EQ(GpuCopier::get(), nullptr);
  EXPECT_EQ(GpuCopier::get(), nullptr);
  const fake_cuda::Driver& driver = fake_cuda::Driver::load();
  GpuCopier* copier = GpuCopier::get();
  ASSERT_NE(copier, nullptr);
  EXPECT_EQ(GpuCopier::get(), copier);

  int host = 0;
  EXPECT_EQ(copier->device_of(&host, sizeof(host)), -1);
  EXPECT_FALSE(copier->pin_host(&host, sizeof(host)));
  gdr::Status prepared = copier->prepare(0);
  ASSERT_FALSE(prepared) << "the copier must not initialise CUDA itself";
  EXPECT_NE(prepared.error().text.find("CUDA_ERROR_NOT_INITIALIZED"), std::string::npos);

  ASSERT_EQ(driver.api.init(0), gdr::cuda::kSuccess);
  EXPECT_TRUE(copier->prepare(0));
}

}  // namespace
}  // namespace softhca
