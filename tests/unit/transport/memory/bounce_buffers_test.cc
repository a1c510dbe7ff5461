#include "transport/memory/bounce_buffers.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"

namespace gdr::transport {
namespace {

constexpr size_t kBytes = 1 << 20;

constexpr auto kAllowed = BounceBufferPool::Locking::kAllowed;
constexpr auto kRefused = BounceBufferPool::Locking::kRefused;

class StandInsTest : public ::testing::Test {
 protected:
  const fake_cuda::Driver& fake_ = fake_cuda::Driver::load();
  const bool initialised_ = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu_{fake_, 0, kBytes};
  uintptr_t address_ = reinterpret_cast<uintptr_t>(gpu_.get());
};

TEST_F(StandInsTest, SameRange_IsSharedWhileItIsHeld) {
  BounceBufferPool bounce_buffers(4 * kBytes);
  auto first = bounce_buffers.get(0, address_, kBytes, kAllowed).value();
  auto second = bounce_buffers.get(0, address_, kBytes, kRefused).value();
  auto part = bounce_buffers.get(0, address_, kBytes / 2, kAllowed).value();
  EXPECT_EQ(first, second);
  EXPECT_NE(first, part);
  EXPECT_EQ(first->memory->bytes(), kBytes);
}

TEST_F(StandInsTest, Staging_FindsTheSameOffset) {
  BounceBufferPool bounce_buffers(kBytes);
  CopyStreams streams;
  Staging staging(bounce_buffers.get(0, address_, kBytes, kAllowed).value(),
                  streams.get(0).value());
  EXPECT_EQ(staging.host(gpu_.get() + 4711), staging.begin() + 4711);
  EXPECT_EQ(streams.get(0).value().get(), staging.stream());
  EXPECT_NE(streams.get(1).value().get(), staging.stream());
}

TEST_F(StandInsTest, BeyondTheLimit_IsRefusedUntilSomeIsGivenBack) {
  BounceBufferPool bounce_buffers(kBytes + kBytes / 2);
  auto held = bounce_buffers.get(0, address_, kBytes, kAllowed).value();
  auto refused = bounce_buffers.get(0, address_ + 8, kBytes, kAllowed);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("GDR_NCCL_STAGING_MIB"), std::string::npos);
  EXPECT_TRUE(bounce_buffers.get(0, address_ + 8, kBytes / 2, kAllowed));
  held.reset();
  EXPECT_TRUE(bounce_buffers.get(0, address_ + 8, kBytes, kAllowed));
}

TEST_F(StandInsTest, SizeNearTheLargest_DoesNotPassTheLimit) {
  BounceBufferPool bounce_buffers(kBytes);
  EXPECT_FALSE(bounce_buffers.get(0, address_, SIZE_MAX, kAllowed));
  auto held = bounce_buffers.get(0, address_, kBytes / 2, kAllowed).value();
  EXPECT_FALSE(bounce_buffers.get(0, address_, SIZE_MAX - kBytes / 4, kAllowed));
  EXPECT_TRUE(bounce_buffers.get(0, address_ + 8, kBytes / 2, kAllowed));
}

// With a kernel running, page-locking would block for good here.
TEST_F(StandInsTest, LockingRefused_OnlyLeftOverMemoryServes) {
  BounceBufferPool bounce_buffers(8 * kBytes);
  auto held = bounce_buffers.get(0, address_, 4096, kAllowed).value();
  void* memory = bounce_buffers.get(0, address_ + 8, kBytes, kAllowed).value()->memory->get();
  fake_.hooks.set_kernel_running(1);
  auto larger = bounce_buffers.get(0, address_, kBytes + 1, kRefused);
  auto much_smaller = bounce_buffers.get(0, address_, kBytes / 4, kRefused);
  for (auto* declined : {&larger, &much_smaller}) {
    ASSERT_FALSE(*declined);
    EXPECT_EQ(declined->error().code, Code::kDeclined);
  }
  EXPECT_EQ(bounce_buffers.get(1, address_ + 16, kBytes - 100, kRefused).value()->memory->get(),
            memory);
  EXPECT_EQ(bounce_buffers.get(0, address_ + 24, kBytes, kRefused).value()->memory->get(), memory);
  fake_.hooks.set_kernel_running(0);
}

TEST_F(StandInsTest, LastStandInGone_MemoryIsUnlocked) {
  BounceBufferPool bounce_buffers(2 * kBytes);
  { auto held = bounce_buffers.get(0, address_, kBytes, kAllowed).value(); }
  auto declined = bounce_buffers.get(0, address_, kBytes, kRefused);
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, Code::kDeclined);
  EXPECT_TRUE(bounce_buffers.get(0, address_, 2 * kBytes, kAllowed));
}

TEST_F(StandInsTest, SeveralThreads_TakeAndGiveBack) {
  BounceBufferPool bounce_buffers(8 * kBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto taken = bounce_buffers.get(0, address_ + 64 * ((t + i) % 3), kBytes / 4, kAllowed);
        ASSERT_TRUE(taken) << taken.error().text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(bounce_buffers.get(0, address_, 8 * kBytes, kAllowed));
}

}  // namespace
}  // namespace gdr::transport
