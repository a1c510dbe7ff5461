#include "drivers/cuda/cuda_driver.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "drivers/cuda/gpu_workspace.h"
#include "tests/fakes/cuda/fake_driver.h"

namespace gdr::cuda {
namespace {

constexpr size_t kBytes = 128 << 10;

class CudaDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<CudaDriver> loaded = CudaDriver::load();
    ASSERT_TRUE(loaded) << loaded.error().text;
    driver_.emplace(*loaded);
  }

  const fake_cuda::Driver& fake_ = fake_cuda::Driver::load();
  std::optional<CudaDriver> driver_;
};

TEST_F(CudaDriverTest, Devices_TwoPresent_AreCountedAndNamedAsSysfsDoes) {
  EXPECT_EQ(driver_->device_count().value(), 2);
  EXPECT_EQ(driver_->pci_bus_id(0).value(), "0000:1a:00.0");
  EXPECT_EQ(driver_->pci_bus_id(1).value(), "0000:1b:00.0");
  Result<std::string> none = driver_->pci_bus_id(2);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text.find("CUDA_ERROR_INVALID_DEVICE"), std::string::npos);
}

TEST_F(CudaDriverTest, DeviceOfPointer_DeviceAndHostMemory_AreDistinguished) {
  EXPECT_TRUE(driver_->gpudirect_rdma_supported(0).value());
  EXPECT_FALSE(driver_->dmabuf_supported(5));
  fake_cuda::DeviceBuffer one(fake_, 1, kBytes);
  EXPECT_EQ(driver_->device_of_pointer(one.get() + 7).value(), 1);
  Result<int> host = driver_->device_of_pointer(&one);
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, Code::kInvalidArgument);
}

TEST_F(CudaDriverTest, ExportDmabuf_WholePages_GivesADescriptor) {
  if (!driver_->dmabuf_supported(1).value()) GTEST_SKIP() << "run without dma-buf";
  fake_cuda::DeviceBuffer one(fake_, 1, kBytes);
  Result<UniqueFd> fd = export_dmabuf(one.get() + 4096, kBytes - 4096);
  ASSERT_TRUE(fd) << fd.error().text;
  EXPECT_TRUE(fd->valid());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd->get(), 0), MAP_FAILED);
  cuda::Context context = nullptr;
  fake_.api.ctx_get_current(&context);
  EXPECT_EQ(context, nullptr) << "the thread's context is as before";
}

TEST_F(CudaDriverTest, ExportDmabuf_UnalignedOrHostMemory_Fails) {
  fake_cuda::DeviceBuffer one(fake_, 1, kBytes);
  EXPECT_FALSE(driver_->export_dmabuf(one.get() + 8, 4096));
  std::vector<char> host(8192);
  EXPECT_FALSE(driver_->export_dmabuf(host.data(), 4096));
}

TEST_F(CudaDriverTest, ExportDmabuf_DriverWithoutIt_NamesTheRequirements) {
  if (driver_->dmabuf_supported(0).value()) GTEST_SKIP() << "run with dma-buf";
  fake_cuda::DeviceBuffer zero(fake_, 0, kBytes);
  Result<UniqueFd> fd = driver_->export_dmabuf(zero.get(), kBytes);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, Code::kUnsupported);
  EXPECT_NE(fd.error().text.find("open kernel modules"), std::string::npos);
}

TEST_F(CudaDriverTest, Gpu_CopyAndFill_AreDoneOnReturn) {
  Result<GpuWorkspace> gpu = GpuWorkspace::open(*driver_, 1);
  ASSERT_TRUE(gpu) << gpu.error().text;
  Result<GpuWorkspace::Memory> memory = gpu->allocate(kBytes);
  ASSERT_TRUE(memory) << memory.error().text;
  EXPECT_EQ(memory->bytes(), kBytes);
  EXPECT_EQ(driver_->device_of_pointer(memory->get()).value(), 1);
  fake_.hooks.set_copy_delay_us(2000);
  std::vector<char> out(kBytes, 'x');
  std::vector<char> in(kBytes);
  // The driver copies so small a source into a buffer of its own and returns before the copy is
  // done.
  EXPECT_TRUE(gpu->copy(memory->get(), out.data(), 8));
  auto* view =
      static_cast<char*>(fake_.hooks.view(reinterpret_cast<cuda::DevicePtr>(memory->get())));
  EXPECT_EQ(std::memcmp(view, out.data(), 8), 0);
  EXPECT_TRUE(gpu->copy(memory->get(), out.data(), kBytes));
  EXPECT_TRUE(gpu->fill(memory->get(), 'y', 100));
  EXPECT_TRUE(gpu->copy(in.data(), memory->get(), kBytes));
  fake_.hooks.set_copy_delay_us(0);
  std::memset(out.data(), 'y', 100);
  EXPECT_EQ(in, out);
}

TEST_F(CudaDriverTest, Gpu_SetCurrent_LastsInTheThread) {
  Result<GpuWorkspace> gpu = GpuWorkspace::open(*driver_, 0);
  ASSERT_TRUE(gpu);
  ASSERT_TRUE(gpu->set_current());
  cuda::Context context = nullptr;
  fake_.api.ctx_get_current(&context);
  EXPECT_NE(context, nullptr);
  fake_.api.ctx_set_current(nullptr);
  EXPECT_FALSE(GpuWorkspace::open(*driver_, 7)) << "there is no such device";
}

}  // namespace
}  // namespace gdr::cuda
