#include "transport/registration_cache.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

namespace gdr {
namespace {

std::atomic<int> g_live{0};
std::atomic<int> g_made{0};
int g_refuse_errno = 0;

ibv_mr* make_mr(void* addr, size_t bytes) {
  if (g_refuse_errno != 0) {
    errno = g_refuse_errno;
    return nullptr;
  }
  auto* mr = new ibv_mr{};
  mr->addr = addr;
  mr->length = bytes;
  ++g_live;
  ++g_made;
  return mr;
}

class RegistrationCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    g_live = 0;
    g_made = 0;
    g_refuse_errno = 0;
    api_.reg_mr = [](ibv_pd*, void* addr, size_t bytes, int) { return make_mr(addr, bytes); };
    api_.reg_dmabuf_mr = [](ibv_pd*, uint64_t, size_t bytes, uint64_t iova, int, int) {
      return make_mr(reinterpret_cast<void*>(iova), bytes);
    };
    api_.dereg_mr = [](ibv_mr* mr) {
      delete mr;
      --g_live;
      return 0;
    };
  }
  VerbsApi api_;
};

TEST_F(RegistrationCacheTest, SameRange_RegisteredOnce) {
  RegistrationCache cache(api_, nullptr, "hca0");
  ibv_mr* a = cache.acquire({0x10000, 4096}, {}).value();
  ibv_mr* b = cache.acquire({0x10000, 4096}, {}).value();
  EXPECT_EQ(a, b);
  EXPECT_EQ(g_made, 1);
  cache.release(a);
  EXPECT_EQ(g_live, 1);
  cache.release(b);
  EXPECT_EQ(g_live, 0);
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(RegistrationCacheTest, SubRange_UsesTheLargerOne) {
  RegistrationCache cache(api_, nullptr, "hca0");
  ibv_mr* whole = cache.acquire({0x10000, 0x10000}, {}).value();
  EXPECT_EQ(cache.acquire({0x14000, 100}, {}).value(), whole);
}

TEST_F(RegistrationCacheTest, OverlappingRange_IsRegisteredAnew) {
  RegistrationCache cache(api_, nullptr, "hca0");
  ibv_mr* first = cache.acquire({0x10000, 0x4000}, {}).value();
  ibv_mr* second = cache.acquire({0x12000, 0x4000}, {}).value();
  EXPECT_NE(first, second);
  cache.release(first);
  EXPECT_EQ(g_live, 1);
  EXPECT_EQ(cache.acquire({0x12000, 0x4000}, {}).value(), second);
}

TEST_F(RegistrationCacheTest, UnalignedRange_CoversWholePages) {
  RegistrationCache cache(api_, nullptr, "hca0");
  ibv_mr* mr = cache.acquire({0x10ff0, 32}, {}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mr->addr), 0x10000u);
  EXPECT_EQ(mr->length, 8192u);
}

TEST_F(RegistrationCacheTest, DmabufRange_IsExact) {
  RegistrationCache cache(api_, nullptr, "hca0");
  ibv_mr* mr = cache.acquire({0x10000, 100}, MemorySource{true, 3, 0, false}).value();
  EXPECT_EQ(mr->length, 100u);
  EXPECT_NE(cache.acquire({0x10000, 100}, {}).value(), mr) << "kinds must not serve each other";
}

TEST_F(RegistrationCacheTest, Refusal_NamesDeviceErrnoAndMend) {
  RegistrationCache cache(api_, nullptr, "hca0");
  g_refuse_errno = ENOMEM;
  auto refused = cache.acquire({0x10000, 4096}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().sys_errno, ENOMEM);
  EXPECT_NE(refused.error().text.find("hca0"), std::string::npos);
  EXPECT_NE(refused.error().text.find("ulimit -l"), std::string::npos);
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(RegistrationCacheTest, RangeAroundTheAddressSpace_IsRefused) {
  RegistrationCache cache(api_, nullptr, "hca0");
  EXPECT_FALSE(cache.acquire({UINTPTR_MAX - 10, 100}, {}).has_value());
}

TEST_F(RegistrationCacheTest, ConcurrentUse_LeavesNothingBehind) {
  RegistrationCache cache(api_, nullptr, "hca0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (uintptr_t i = 0; i < 500; ++i) {
        uintptr_t begin = 0x100000 + (i * 7 + t) % 16 * 0x1000;
        ibv_mr* mr = cache.acquire({begin, 0x3000}, {}).value();
        EXPECT_LE(reinterpret_cast<uintptr_t>(mr->addr), begin);
        cache.release(mr);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(g_live, 0);
}

}  // namespace
}  // namespace gdr
