#include "transport/memory/bounce_buffers.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"

namespace gdr::transport {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

constexpr auto kAllowed = BounceBufferPool::Locking::kAllowed;
constexpr auto kForbidden = BounceBufferPool::Locking::kForbidden;

class BounceBufferPoolTest : public ::testing::Test {
 protected:
  const fake_cuda::Driver& fake_ = fake_cuda::Driver::load();
  const bool initialised_ = cuda::CudaDriver::shared().has_value();
  fake_cuda::DeviceBuffer gpu_{fake_, 0, kBufferBytes};
  uintptr_t address_ = reinterpret_cast<uintptr_t>(gpu_.get());
};

TEST_F(BounceBufferPoolTest, SameRange_IsSharedWhileItIsHeld) {
  BounceBufferPool pool(4 * kBufferBytes);
  auto first = pool.get(0, address_, kBufferBytes, kAllowed).value();
  auto second = pool.get(0, address_, kBufferBytes, kForbidden).value();
  auto part = pool.get(0, address_, kBufferBytes / 2, kAllowed).value();
  EXPECT_EQ(first, second);
  EXPECT_NE(first, part);
  EXPECT_EQ(first->memory->bytes(), kBufferBytes);
}

TEST_F(BounceBufferPoolTest, StagedMemory_HasTheSameOffset) {
  BounceBufferPool pool(kBufferBytes);
  CopyStreams streams;
  StagedMemory staging(pool.get(0, address_, kBufferBytes, kAllowed).value(),
                       streams.get(0).value());
  EXPECT_EQ(staging.host(gpu_.get() + 4711), staging.begin() + 4711);
  EXPECT_EQ(streams.get(0).value().get(), staging.stream());
  EXPECT_NE(streams.get(1).value().get(), staging.stream());
}

TEST_F(BounceBufferPoolTest, BeyondTheLimit_FailsUntilSomeIsReleased) {
  BounceBufferPool pool(kBufferBytes + kBufferBytes / 2);
  auto held = pool.get(0, address_, kBufferBytes, kAllowed).value();
  auto failed = pool.get(0, address_ + 8, kBufferBytes, kAllowed);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text.find("GDR_NCCL_STAGING_MIB"), std::string::npos);
  EXPECT_TRUE(pool.get(0, address_ + 8, kBufferBytes / 2, kAllowed));
  held.reset();
  EXPECT_TRUE(pool.get(0, address_ + 8, kBufferBytes, kAllowed));
}

TEST_F(BounceBufferPoolTest, SizeNearTheLargest_DoesNotPassTheLimit) {
  BounceBufferPool pool(kBufferBytes);
  EXPECT_FALSE(pool.get(0, address_, SIZE_MAX, kAllowed));
  auto held = pool.get(0, address_, kBufferBytes / 2, kAllowed).value();
  EXPECT_FALSE(pool.get(0, address_, SIZE_MAX - kBufferBytes / 4, kAllowed));
  EXPECT_TRUE(pool.get(0, address_ + 8, kBufferBytes / 2, kAllowed));
}

// With a kernel running, page-locking would block forever here.
TEST_F(BounceBufferPoolTest, LockingForbidden_OnlyUnusedMemoryServes) {
  BounceBufferPool pool(8 * kBufferBytes);
  auto held = pool.get(0, address_, 4096, kAllowed).value();
  void* memory = pool.get(0, address_ + 8, kBufferBytes, kAllowed).value()->memory->get();
  fake_.hooks.set_kernel_running(1);
  auto larger = pool.get(0, address_, kBufferBytes + 1, kForbidden);
  auto much_smaller = pool.get(0, address_, kBufferBytes / 4, kForbidden);
  for (auto* declined : {&larger, &much_smaller}) {
    ASSERT_FALSE(*declined);
    EXPECT_EQ(declined->error().code, Code::kDeclined);
  }
  EXPECT_EQ(pool.get(1, address_ + 16, kBufferBytes - 100, kForbidden).value()->memory->get(),
            memory);
  EXPECT_EQ(pool.get(0, address_ + 24, kBufferBytes, kForbidden).value()->memory->get(), memory);
  fake_.hooks.set_kernel_running(0);
}

TEST_F(BounceBufferPoolTest, LastBounceBufferReleased_MemoryIsUnlocked) {
  BounceBufferPool pool(2 * kBufferBytes);
  { auto held = pool.get(0, address_, kBufferBytes, kAllowed).value(); }
  auto declined = pool.get(0, address_, kBufferBytes, kForbidden);
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, Code::kDeclined);
  EXPECT_TRUE(pool.get(0, address_, 2 * kBufferBytes, kAllowed));
}

TEST_F(BounceBufferPoolTest, SeveralThreads_GetAndRelease) {
  BounceBufferPool pool(8 * kBufferBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto taken = pool.get(0, address_ + 64 * ((t + i) % 3), kBufferBytes / 4, kAllowed);
        ASSERT_TRUE(taken) << taken.error().text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(pool.get(0, address_, 8 * kBufferBytes, kAllowed));
}

}  // namespace
}  // namespace gdr::transport
