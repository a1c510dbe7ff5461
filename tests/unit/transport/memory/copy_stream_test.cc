#include "transport/memory/copy_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"
#include "transport/memory/pinned_memory.h"

namespace gdr::transport {
namespace {

constexpr size_t kStreamBytes = 64 << 10;
constexpr auto kPatience = std::chrono::seconds(20);

class CopyStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<cuda::CudaDriver> loaded = cuda::CudaDriver::load();
    ASSERT_TRUE(loaded) << loaded.error().text;
    driver_.emplace(*loaded);
    Result<std::unique_ptr<PinnedMemory>> host = PinnedMemory::create(*driver_, 1, kStreamBytes);
    ASSERT_TRUE(host) << host.error().text;
    host_ = std::move(*host);
    Result<std::shared_ptr<CopyStream>> stream = CopyStream::create(*driver_, 1);
    ASSERT_TRUE(stream) << stream.error().text;
    stream_ = *stream;
    gpu_.emplace(fake_, 1, kStreamBytes);
  }
  void TearDown() override { fake_.hooks.set_copies_held(0); }

  void wait_for(uint64_t ticket) {
    auto until = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      Result<bool> done = stream_->done(ticket);
      ASSERT_TRUE(done) << done.error().text;
      if (*done) return;
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "ticket " << ticket;
      std::this_thread::yield();
    }
  }

  const fake_cuda::Driver& fake_ = fake_cuda::Driver::load();
  std::optional<cuda::CudaDriver> driver_;
  std::unique_ptr<PinnedMemory> host_;
  std::shared_ptr<CopyStream> stream_;
  std::optional<fake_cuda::DeviceBuffer> gpu_;
};

TEST_F(CopyStreamTest, BothDirections_BytesArriveBeforeDone) {
  std::memset(gpu_->view(), 0x5a, kStreamBytes);
  wait_for(stream_->copy(host_->get(), gpu_->get(), kStreamBytes).value());
  EXPECT_TRUE(std::all_of(host_->get(), host_->get() + kStreamBytes,
                          [](std::byte byte) { return byte == std::byte{0x5a}; }));
  std::memset(host_->get(), 0x17, kStreamBytes);
  wait_for(stream_->copy(gpu_->get() + 100, host_->get(), 1000).value());
  EXPECT_EQ(gpu_->view()[99], 0x5a);
  EXPECT_EQ(gpu_->view()[100], 0x17);
  EXPECT_EQ(gpu_->view()[1099], 0x17);
  EXPECT_EQ(gpu_->view()[1100], 0x5a);
}

TEST_F(CopyStreamTest, HeldCopies_AreNotDoneAndNoCallWaits) {
  fake_.hooks.set_copies_held(1);
  fake_.hooks.set_kernel_running(1);
  uint64_t first = stream_->copy(host_->get(), gpu_->get(), kStreamBytes).value();
  uint64_t second = stream_->copy(gpu_->get(), host_->get(), 8).value();
  EXPECT_EQ(second, first + 1);
  EXPECT_FALSE(stream_->done(first).value());
  EXPECT_FALSE(stream_->done(second).value());
  fake_.hooks.set_copies_held(0);
  wait_for(second);
  EXPECT_TRUE(stream_->done(first).value());
  fake_.hooks.set_kernel_running(0);
}

// Later copies take over the events of earlier ones.
TEST_F(CopyStreamTest, MoreCopiesThanEvents_NoneIsDoneTooEarly) {
  constexpr int kCopies = 1000;
  fake_.hooks.set_copies_held(1);
  std::vector<uint64_t> tickets;
  for (int i = 0; i < kCopies; ++i) {
    tickets.push_back(stream_->copy(host_->get(), gpu_->get(), 8).value());
  }
  for (uint64_t ticket : tickets) ASSERT_FALSE(stream_->done(ticket).value());
  fake_.hooks.set_copies_held(0);
  for (uint64_t ticket : tickets) wait_for(ticket);
}

TEST_F(CopyStreamTest, WhileAThreadCapturesAGraph_CopiesGoOn) {
  fake_.hooks.set_capturing(1);
  wait_for(stream_->copy(host_->get(), gpu_->get(), kStreamBytes).value());
  fake_.hooks.set_capturing(0);
}

TEST_F(CopyStreamTest, Drain_WaitsForAll) {
  fake_.hooks.set_copy_delay_us(2000);
  uint64_t last = 0;
  for (int i = 0; i < 5; ++i) last = stream_->copy(host_->get(), gpu_->get(), 8).value();
  stream_->drain();
  EXPECT_TRUE(stream_->done(last).value());
  fake_.hooks.set_copy_delay_us(0);
}

// Runs last, by its name: the device's context stays broken.
TEST_F(CopyStreamTest, ZBrokenContext_IsAnErrorThatNamesTheDevice) {
  uint64_t ticket = stream_->copy(host_->get(), gpu_->get(), 8).value();
  wait_for(ticket);
  fake_.hooks.fail_context(1, cuda::kErrorIllegalAddress);
  Result<bool> done = stream_->done(ticket + 1);
  Result<uint64_t> copy = stream_->copy(host_->get(), gpu_->get(), 8);
  ASSERT_FALSE(done);
  ASSERT_FALSE(copy);
  for (const std::string& text : {done.error().text, copy.error().text}) {
    EXPECT_NE(text.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
    EXPECT_NE(text.find("CUDA device 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace gdr::transport
