// Failures that a process cannot recover from: CTest runs each test in a process of its own.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "softhca/gpu/copier.h"
#include "tests/fakes/cuda/fake_driver.h"

namespace softhca {
namespace {

class CopierFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(driver_.api.init(0), gdr::cuda::kSuccess);
    copier_ = GpuCopier::get();
    ASSERT_NE(copier_, nullptr);
    ASSERT_TRUE(copier_->prepare(0));
    ASSERT_TRUE(copier_->prepare(1));
  }

  const fake_cuda::Driver& driver_ = fake_cuda::Driver::load();
  GpuCopier* copier_ = nullptr;
};

TEST_F(CopierFailureTest, Failure_ContextFailsDuringCopies_ReportedAndOtherDevicesContinue) {
  fake_cuda::DeviceBuffer zero(driver_, 0, 4096);
  fake_cuda::DeviceBuffer one(driver_, 1, 4096);
  std::vector<char> host(64);
  uint32_t lane = copier_->lane(1, 0);
  driver_.hooks.set_copies_held(1);
  gdr::Result<GpuTicket> lost = copier_->copy(lane, one.get(), host.data(), host.size());
  ASSERT_TRUE(lost);
  gdr::Result<GpuTicket> behind = copier_->copy(lane, one.get(), host.data(), host.size());
  ASSERT_TRUE(behind);
  driver_.hooks.fail_context(1, gdr::cuda::kErrorIllegalAddress);
  driver_.hooks.set_copies_held(0);

  std::optional<gdr::Error> failure = copier_->failure(lane);
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->text.find("CUDA_ERROR_ILLEGAL_ADDRESS on CUDA device 1"), std::string::npos)
      << failure->text;
  EXPECT_FALSE(copier_->done(*behind));
  gdr::Result<GpuTicket> after = copier_->copy(lane, one.get(), host.data(), host.size());
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().text, failure->text);

  uint32_t healthy = copier_->lane(0, 0);
  gdr::Result<GpuTicket> ticket = copier_->copy(healthy, zero.get(), host.data(), host.size());
  ASSERT_TRUE(ticket);
  while (!copier_->done(*ticket)) std::this_thread::yield();
  EXPECT_FALSE(copier_->failure(healthy));
}

TEST_F(CopierFailureTest, Calls_DriverShutDownAtExit_FailQuietly) {
  std::vector<char> host(4096);
  ASSERT_TRUE(copier_->pin_host(host.data(), host.size()));
  driver_.hooks.set_shut_down(1);
  copier_->unpin_host(host.data());
  EXPECT_EQ(copier_->device_of(host.data(), host.size()), -1);
  uint32_t lane = copier_->lane(0, 7);
  gdr::Result<GpuTicket> ticket = copier_->copy(lane, host.data(), host.data(), 8);
  ASSERT_FALSE(ticket);
  EXPECT_NE(ticket.error().text.find("CUDA_ERROR_DEINITIALIZED"), std::string::npos);
  EXPECT_TRUE(copier_->failure(lane));
}

}  // namespace
}  // namespace softhca
