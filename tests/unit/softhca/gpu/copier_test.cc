// Also run with FAKE_CUDA_STREAM_MEMOPS=0, where completion is observed by events.
#include "softhca/gpu/copier.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"

namespace softhca {
namespace {

using fake_cuda::DeviceBuffer;

constexpr size_t kBytes = size_t{1} << 20;

class CopierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(driver_.api.init(0), gdr::cuda::kSuccess);
    copier_ = GpuCopier::get();
    ASSERT_NE(copier_, nullptr);
    ASSERT_TRUE(copier_->prepare(0));
    ASSERT_TRUE(copier_->prepare(1));
  }
  void TearDown() override {
    driver_.hooks.set_kernel_running(0);
    driver_.hooks.set_copies_held(0);
    driver_.hooks.set_capturing(0);
  }

  GpuTicket copy(uint32_t lane, void* dst, const void* src, size_t bytes) {
    gdr::Result<GpuTicket> ticket = copier_->copy(lane, dst, src, bytes);
    EXPECT_TRUE(ticket) << ticket.error().text;
    return ticket.value_or(GpuTicket{lane, 0});
  }
  void wait(GpuTicket ticket) {
    while (!copier_->done(ticket)) std::this_thread::yield();
  }

  const fake_cuda::Driver& driver_ = fake_cuda::Driver::load();
  GpuCopier* copier_ = nullptr;
};

std::vector<char> pattern(char first, size_t bytes = kBytes) {
  std::vector<char> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(first + i * 7 + i / 251);
  return data;
}

// Page-locked for the life of the object.
class PinnedBuffer {
 public:
  PinnedBuffer(GpuCopier* copier, std::vector<char> data)
      : copier_(copier), data_(std::move(data)) {
    EXPECT_TRUE(copier_->pin_host(data_.data(), data_.size()));
  }
  ~PinnedBuffer() { copier_->unpin_host(data_.data()); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  char* get() { return data_.data(); }

 private:
  GpuCopier* copier_;
  std::vector<char> data_;
};

TEST_F(CopierTest, Prepare_DriverWithAndWithoutStreamWrites_ChoosesCompletion) {
  const char* memops = std::getenv("FAKE_CUDA_STREAM_MEMOPS");
  bool refused = memops != nullptr && std::string_view(memops) == "0";
  GpuCompletion expected = refused ? GpuCompletion::kEvent : GpuCompletion::kStreamWrite;
  EXPECT_EQ(copier_->completion(0), expected);
  EXPECT_EQ(copier_->completion(1), expected);
}

TEST_F(CopierTest, Prepare_NoSuchDevice_ErrorNamesIt) {
  gdr::Status beyond = copier_->prepare(2);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().text.find("CUDA_ERROR_INVALID_DEVICE"), std::string::npos);
  EXPECT_FALSE(copier_->prepare(-1));
  EXPECT_FALSE(copier_->prepare(GpuCopier::kMaxDevices));
}

TEST_F(CopierTest, DeviceOf_HostDeviceAndStraddlingRanges_ReturnsTheOwner) {
  DeviceBuffer zero(driver_, 0, kBytes);
  DeviceBuffer one(driver_, 1, kBytes);
  int host = 0;
  EXPECT_EQ(copier_->device_of(zero.get(), kBytes), 0);
  EXPECT_EQ(copier_->device_of(one.get() + 5, 1), 1);
  EXPECT_EQ(copier_->device_of(&host, sizeof(host)), -1);
  EXPECT_EQ(copier_->device_of(zero.get(), kBytes + 1), -1);
  EXPECT_EQ(copier_->device_of(zero.get(), 0), 0);
}

TEST_F(CopierTest, DeviceOf_PageLockedHostMemory_IsNoDevice) {
  PinnedBuffer host(copier_, pattern(1));
  EXPECT_EQ(copier_->device_of(host.get(), kBytes), -1);
}

TEST_F(CopierTest, Copy_ManyOverTheSameBytes_ArriveInOrder) {
  DeviceBuffer gpu(driver_, 0, sizeof(uint64_t));
  constexpr uint64_t kCopies = 1000;  // several times round the ring of events
  std::vector<char> room(kCopies * sizeof(uint64_t));
  PinnedBuffer values(copier_, std::move(room));
  auto* words = reinterpret_cast<uint64_t*>(values.get());
  std::iota(words, words + kCopies, 0);
  uint32_t lane = copier_->lane(0, 3);
  driver_.hooks.set_copies_held(1);
  std::vector<GpuTicket> tickets;
  for (uint64_t i = 0; i < kCopies; ++i) {
    tickets.push_back(copy(lane, gpu.get(), words + i, sizeof(uint64_t)));
  }
  EXPECT_FALSE(copier_->done(tickets.front()));
  driver_.hooks.set_copies_held(0);
  wait(tickets.back());
  for (const GpuTicket& ticket : tickets) EXPECT_TRUE(copier_->done(ticket));
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(gpu.view()), kCopies - 1);
}

TEST_F(CopierTest, Copy_ZeroBytes_CompletesAfterEarlierCopies) {
  DeviceBuffer gpu(driver_, 0, kBytes);
  PinnedBuffer from(copier_, pattern(7));
  driver_.hooks.set_copies_held(1);
  uint32_t lane = copier_->lane(0, 4);
  GpuTicket copied = copy(lane, gpu.get(), from.get(), 64);
  GpuTicket nothing = copy(lane, nullptr, nullptr, 0);
  EXPECT_FALSE(copier_->done(nothing));
  driver_.hooks.set_copies_held(0);
  wait(nothing);
  EXPECT_TRUE(copier_->done(copied));
}

TEST_F(CopierTest, Calls_OtherThreadCapturesAGraph_AreAllowed) {
  DeviceBuffer gpu(driver_, 0, kBytes);
  driver_.hooks.set_capturing(1);
  PinnedBuffer from(copier_, pattern(2));
  EXPECT_EQ(copier_->device_of(gpu.get(), kBytes), 0);
  GpuTicket ticket = copy(copier_->lane(0, 0), gpu.get(), from.get(), kBytes);
  wait(ticket);
  EXPECT_FALSE(copier_->failure(ticket.lane));
  int mode = gdr::cuda::kCaptureModeRelaxed;
  driver_.api.thread_exchange_stream_capture_mode(&mode);
  EXPECT_EQ(mode, gdr::cuda::kCaptureModeGlobal) << "the thread's own mode is put back";
  driver_.api.thread_exchange_stream_capture_mode(&mode);
  driver_.hooks.set_capturing(0);
}

TEST_F(CopierTest, Copy_ThreadInOtherContext_ContextIsRestored) {
  DeviceBuffer gpu(driver_, 0, kBytes);
  PinnedBuffer from(copier_, pattern(2));
  ASSERT_TRUE(copier_->adopt_thread(1));
  gdr::cuda::Context before = nullptr;
  driver_.api.ctx_get_current(&before);
  ASSERT_NE(before, nullptr);
  wait(copy(copier_->lane(0, 0), gpu.get(), from.get(), kBytes));
  gdr::cuda::Context after = nullptr;
  driver_.api.ctx_get_current(&after);
  EXPECT_EQ(before, after);
  driver_.api.ctx_set_current(nullptr);
}

TEST_F(CopierTest, Copy_AddressRefusedByDriver_OtherCopiesComplete) {
  DeviceBuffer gpu(driver_, 0, kBytes);
  PinnedBuffer from(copier_, pattern(2));
  uint32_t lane = copier_->lane(0, 6);
  gdr::Result<GpuTicket> refused = copier_->copy(lane, nullptr, from.get(), 8);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos);
  EXPECT_FALSE(copier_->failure(lane));
  wait(copy(lane, gpu.get(), from.get(), 8));
}

TEST_F(CopierTest, Copy_LaneOfUnpreparedDevice_Fails) {
  char bytes[8] = {};
  uint32_t lane = copier_->lane(5, 0);
  EXPECT_FALSE(copier_->copy(lane, bytes, bytes, 1));
  EXPECT_FALSE(copier_->done(GpuTicket{lane, 1}));
  EXPECT_TRUE(copier_->failure(lane));
  EXPECT_FALSE(copier_->adopt_thread(5));
}

TEST_F(CopierTest, Pin_MemoryLockedByTheApplication_StaysLocked) {
  std::vector<char> host(kBytes);
  ASSERT_TRUE(copier_->adopt_thread(0));
  ASSERT_EQ(driver_.api.mem_host_register(host.data(), kBytes, 0), gdr::cuda::kSuccess);
  EXPECT_TRUE(copier_->pin_host(host.data(), kBytes));
  copier_->unpin_host(host.data());
  EXPECT_EQ(driver_.api.mem_host_unregister(host.data()), gdr::cuda::kSuccess);
  driver_.api.ctx_set_current(nullptr);
}

TEST_F(CopierTest, Copy_ThreadsShareLanes_EveryTicketCompletes) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  DeviceBuffer gpu(driver_, 0, kThreads * kBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &gpu] {
      PinnedBuffer host(copier_, pattern(static_cast<char>(t), 4096));
      PinnedBuffer back(copier_, std::vector<char>(4096));
      char* own = gpu.get() + static_cast<size_t>(t) * kBytes;
      uint32_t lane = copier_->lane(0, static_cast<uint32_t>(t) % 2);
      for (int i = 0; i < kRounds; ++i) {
        host.get()[0] = static_cast<char>(i);
        copy(lane, own, host.get(), 4096);
        wait(copy(lane, back.get(), own, 4096));
        ASSERT_EQ(std::memcmp(back.get(), host.get(), 4096), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A process does not recover from these failures, so that they come last.
using CopierFailure = CopierTest;

TEST_F(CopierFailure, Failure_ContextFailsDuringCopies_ReportedAndOtherDevicesContinue) {
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

TEST_F(CopierFailure, Calls_DriverShutDownAtExit_FailQuietly) {
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
