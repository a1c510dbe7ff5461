#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/transport/device/fake_registrations.h"
#include "transport/device/registration_cache.h"

namespace gdr::transport {
namespace {

constexpr std::chrono::seconds kMostWait{20};  // a wait ends earlier unless there is a bug
constexpr MemoryRegion kRange{0x100000, 4 * kPage};

// Blocks threads in pass() until it is open.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait_for(lock, kMostWait, [this] { return open_; });
  }
  bool await_arrivals(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kMostWait, [&] { return arrived_ >= count; });
  }
  bool is_open() {
    std::lock_guard lock(mutex_);
    return open_;
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

class RegistrationCacheThreadsTest : public testing::Test {
 protected:
  std::future<Result<ibv_mr*>> acquiring(MemoryRegion region, PciOrdering ordering = {}) {
    return std::async(std::launch::async,
                      [this, region, ordering] { return cache_.acquire(region, ordering); });
  }
  template <class Value>
  static bool ends(const std::future<Value>& future) {
    return future.wait_for(kMostWait / 2) == std::future_status::ready;
  }

  FakeRegistrations fake_;
  verbs::Api api_ = FakeRegistrations::api();
  RegistrationCache cache_{api_, &fake_, "hca0"};
  Gate gate_;
};

TEST_F(RegistrationCacheThreadsTest, SameAndSubRangeMeanwhile_ShareTheFirstRegistration) {
  std::atomic<int> slow{2};
  fake_.while_registering = [&] {
    if (slow-- > 0) gate_.pass();
  };
  auto second = acquiring(kRange);
  auto third = acquiring({kRange.address + kPage, kPage});
  ASSERT_TRUE(gate_.await_arrivals(2));
  ibv_mr* mr = cache_.acquire(kRange, {}).value();
  gate_.open();
  EXPECT_EQ(second.get().value(), mr);
  EXPECT_EQ(third.get().value(), mr);
  EXPECT_EQ(fake_.live, 1) << "theirs are deregistered";
  for (int i = 0; i < 3; ++i) cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
}

// What the first one takes may be what the second one lacks.
TEST_F(RegistrationCacheThreadsTest, SameRangeFailsMeanwhile_WaitsForTheFirstAndSharesIt) {
  std::atomic<int> calls{0};
  fake_.while_registering = [&] {
    if (calls++ == 0) gate_.pass();
    fake_.fail_with_errno = calls == 1 || gate_.is_open() ? 0 : ENOMEM;
  };
  auto first = acquiring(kRange);
  ASSERT_TRUE(gate_.await_arrivals(1));
  auto second = acquiring(kRange);
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  gate_.open();
  ibv_mr* mr = first.get().value();
  EXPECT_EQ(second.get().value_or(nullptr), mr);
  cache_.release(mr);
  cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheThreadsTest, OtherRangesAndKinds_RegisterMeanwhile) {
  fake_.while_registering = [this] { gate_.pass(); };
  std::vector<std::future<Result<ibv_mr*>>> all;
  all.push_back(acquiring(kRange));
  all.push_back(acquiring({kRange.address + kPage, kRange.bytes}));
  all.push_back(acquiring({kRange.address, kRange.bytes, false, 3}));
  all.push_back(acquiring(kRange, PciOrdering::kRelaxed));
  EXPECT_TRUE(gate_.await_arrivals(4));
  gate_.open();
  for (auto& mr : all) cache_.release(mr.get().value());
  EXPECT_EQ(fake_.made, 4);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheThreadsTest, CachedRange_IsServedWhileAnotherRegisters) {
  ibv_mr* cached = cache_.acquire({kRange.address, kPage}, {}).value();
  fake_.while_registering = [this] { gate_.pass(); };
  auto slow = acquiring(kRange);
  ASSERT_TRUE(gate_.await_arrivals(1));
  auto hit = acquiring({kRange.address, 100});
  EXPECT_TRUE(ends(hit));
  auto released = std::async(std::launch::async, [&] {
    cache_.release(cached);
    cache_.release(cached);
  });
  EXPECT_TRUE(ends(released));
  gate_.open();
  EXPECT_EQ(hit.get().value(), cached);
  cache_.release(slow.get().value());
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheThreadsTest, RangeBeingDeregistered_IsRegisteredAnew) {
  ibv_mr* old = cache_.acquire(kRange, {}).value();
  fake_.while_deregistering = [this] { gate_.pass(); };
  auto released = std::async(std::launch::async, [&] { cache_.release(old); });
  ASSERT_TRUE(gate_.await_arrivals(1));
  auto again = acquiring(kRange);
  EXPECT_TRUE(ends(again));
  gate_.open();
  released.get();
  ibv_mr* mr = again.get().value();
  EXPECT_NE(mr, old);
  EXPECT_EQ(fake_.made, 2);
  EXPECT_EQ(cache_.size(), 1u);
  cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
}

// Now and then gives the other threads time, where the cache does not hold its mutex.
void dawdle() {
  thread_local std::minstd_rand random(std::random_device{}());
  switch (random() % 8) {
    case 0:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
      break;
    case 1:
    case 2:
      std::this_thread::yield();
      break;
  }
}

TEST_F(RegistrationCacheThreadsTest, RandomUseByManyThreads_LeavesNothingBehind) {
  fake_.while_registering = fake_.while_deregistering = dawdle;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::vector<std::pair<ibv_mr*, MemoryRegion>> held;
      for (int step = 0; step < 3000; ++step) {
        if (held.size() < 1 + random() % 8) {
          MemoryRegion range{0x100000 + random() % 12 * kPage, (1 + random() % 6) * kPage};
          PciOrdering ordering = random() % 4 == 0 ? PciOrdering::kRelaxed : PciOrdering::kStrict;
          held.emplace_back(cache_.acquire(range, ordering).value(), range);
        } else {
          std::swap(held[random() % held.size()], held.back());
          cache_.release(held.back().first);
          held.pop_back();
        }
        // A registration that was deregistered too early covers nothing, or is being written.
        for (const auto& [mr, range] : held) {
          ASSERT_TRUE(covers(*mr, range.address, range.bytes));
        }
      }
      for (const auto& [mr, range] : held) cache_.release(mr);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_EQ(fake_.live, 0);
  EXPECT_GT(fake_.made, 100);
}

}  // namespace
}  // namespace gdr::transport
