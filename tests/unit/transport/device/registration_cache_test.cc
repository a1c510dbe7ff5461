#include "transport/device/registration_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/unit/transport/device/fake_registrations.h"

namespace gdr::transport {
namespace {

constexpr size_t kPage = 4096;

class RegistrationCacheTest : public testing::Test {
 protected:
  bool has_covering(MemoryRange range) {
    int before = fake_.made;
    cache_.release(cache_.acquire(range, {}).value());
    return fake_.made == before;
  }

  FakeRegistrations fake_;
  verbs::Api api_ = FakeRegistrations::api();
  RegistrationCache cache_{api_, &fake_, "hca0"};
};

TEST_F(RegistrationCacheTest, SameRange_RegisteredOnce) {
  ibv_mr* a = cache_.acquire({0x10000, kPage}, {}).value();
  ibv_mr* b = cache_.acquire({0x10000, kPage}, {}).value();
  EXPECT_EQ(a, b);
  EXPECT_EQ(fake_.made, 1);
  cache_.release(a);
  EXPECT_EQ(fake_.live, 1);
  cache_.release(b);
  EXPECT_EQ(fake_.live, 0);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(RegistrationCacheTest, SubRange_UsesTheLargerOne) {
  ibv_mr* whole = cache_.acquire({0x10000, 0x10000}, {}).value();
  EXPECT_EQ(cache_.acquire({0x14000, 100}, {}).value(), whole);
}

TEST_F(RegistrationCacheTest, SubRange_KeepsTheLargerOneAlive) {
  ibv_mr* whole = cache_.acquire({0x10000, 0x10000}, {}).value();
  ibv_mr* part = cache_.acquire({0x14000, 100}, {}).value();
  cache_.release(whole);
  EXPECT_EQ(fake_.live, 1);
  cache_.release(part);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, SubRangeBehindManySmallerOnes_UsesTheLargerOne) {
  for (uintptr_t i = 1; i < 100; ++i) ASSERT_TRUE(cache_.acquire({i * 2 * kPage, kPage}, {}));
  ibv_mr* whole = cache_.acquire({0, 300 * kPage}, {}).value();
  EXPECT_EQ(cache_.acquire({199 * kPage, 2 * kPage}, {}).value(), whole);
}

TEST_F(RegistrationCacheTest, OverlappingRange_IsRegisteredAnew) {
  ibv_mr* first = cache_.acquire({0x10000, 0x4000}, {}).value();
  ibv_mr* second = cache_.acquire({0x12000, 0x4000}, {}).value();
  EXPECT_NE(first, second);
  cache_.release(first);
  EXPECT_EQ(fake_.live, 1);
  EXPECT_EQ(cache_.acquire({0x12000, 0x4000}, {}).value(), second);
}

TEST_F(RegistrationCacheTest, AdjacentRanges_DoNotServeTheirUnion) {
  cache_.acquire({0x10000, 0x4000}, {}).value();
  cache_.acquire({0x14000, 0x4000}, {}).value();
  EXPECT_FALSE(has_covering({0x12000, 0x4000}));
}

TEST_F(RegistrationCacheTest, UnalignedRange_CoversWholePages) {
  ibv_mr* mr = cache_.acquire({0x10ff0, 32}, {}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mr->addr), 0x10000u);
  EXPECT_EQ(mr->length, 2 * kPage);
}

TEST_F(RegistrationCacheTest, DmabufRange_IsExact) {
  ibv_mr* mr = cache_.acquire({0x10000, 100}, MemorySource{true, 3, 0, false}).value();
  EXPECT_EQ(mr->length, 100u);
}

TEST_F(RegistrationCacheTest, Kinds_DoNotServeEachOther) {
  std::vector<ibv_mr*> mrs;
  for (bool dmabuf : {false, true}) {
    for (bool relaxed : {false, true}) {
      mrs.push_back(cache_.acquire({0x10000, kPage}, {dmabuf, 3, 0, relaxed}).value());
    }
  }
  EXPECT_EQ(fake_.made, 4);
  for (ibv_mr* mr : mrs) cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, GpuBytes_AreThoseRegisteredNow) {
  MemorySource gpu{.dmabuf = true, .fd = 3, .gpu = true};
  ibv_mr* mr = cache_.acquire({0x10000, 2 * kPage}, gpu).value();
  ibv_mr* part = cache_.acquire({0x10000, kPage}, gpu).value();
  cache_.acquire({0x10000, kPage}, {}).value();
  EXPECT_EQ(cache_.gpu_bytes(), 2 * kPage);
  cache_.release(part);
  cache_.release(mr);
  EXPECT_EQ(cache_.gpu_bytes(), 0u);
}

TEST_F(RegistrationCacheTest, EveryOrderOfComingAndGoing_FindsWhatCovers) {
  const std::array<MemoryRange, 4> ranges{{{16 * kPage, 16 * kPage},  // holds the next two
                                           {20 * kPage, 8 * kPage},   // holds the next
                                           {20 * kPage, 4 * kPage},
                                           {24 * kPage, 12 * kPage}}};  // overlaps the first two
  std::array<size_t, 4> coming{0, 1, 2, 3};
  do {
    std::array<size_t, 4> going{0, 1, 2, 3};
    do {
      std::array<ibv_mr*, 4> held{};
      auto check = [&] {
        for (uintptr_t page = 15; page < 37; page += 3) {
          for (size_t pages : {1, 4, 8}) {
            bool expected = std::any_of(held.begin(), held.end(), [&](const ibv_mr* mr) {
              return mr != nullptr && covers(*mr, page * kPage, pages * kPage);
            });
            ASSERT_EQ(has_covering({page * kPage, pages * kPage}), expected);
          }
        }
      };
      for (size_t i : coming) held[i] = cache_.acquire(ranges[i], {}).value();
      for (size_t i : going) {
        ASSERT_NO_FATAL_FAILURE(check());
        cache_.release(std::exchange(held[i], nullptr));
      }
      ASSERT_EQ(fake_.live, 0);
    } while (std::next_permutation(going.begin(), going.end()));
  } while (std::next_permutation(coming.begin(), coming.end()));
}

TEST_F(RegistrationCacheTest, Refusal_NamesDeviceErrnoAndMend) {
  fake_.refuse_errno = ENOMEM;
  auto refused = cache_.acquire({0x10000, kPage}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().sys_errno, ENOMEM);
  EXPECT_NE(refused.error().text.find("hca0"), std::string::npos);
  EXPECT_NE(refused.error().text.find("ulimit -l"), std::string::npos);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(RegistrationCacheTest, Refusal_LeavesNothingInTheWay) {
  fake_.refuse_errno = EFAULT;
  EXPECT_FALSE(cache_.acquire({0x10000, kPage}, {}).has_value());
  fake_.refuse_errno = 0;
  Result<ibv_mr*> mr = cache_.acquire({0x10000, kPage}, {});
  ASSERT_TRUE(mr.has_value());
  cache_.release(*mr);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, RangeAroundTheAddressSpace_IsRefused) {
  EXPECT_FALSE(cache_.acquire({UINTPTR_MAX - 10, 100}, {}).has_value());
  EXPECT_EQ(fake_.made, 0) << "nobody asked the verbs library";
}

TEST_F(RegistrationCacheTest, RangeWhosePagesWrapAround_IsRefused) {
  EXPECT_FALSE(cache_.acquire({UINTPTR_MAX - 100, 50}, {}).has_value());
  EXPECT_TRUE(cache_.acquire({UINTPTR_MAX - 100, 50}, {true, 3, 0, false}).has_value());
  EXPECT_TRUE(cache_.acquire({UINTPTR_MAX - 2 * kPage, kPage}, {}).has_value());
}

TEST_F(RegistrationCacheTest, Dmabufs_AreNeitherKeptNorClosed) {
  auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  fake_.while_registering_dmabuf = [](int fd) { EXPECT_GE(fcntl(fd, F_GETFD), 0); };
  const auto before = open_files();
  std::vector<ibv_mr*> held;
  for (uintptr_t i = 0; i < 300; ++i) {
    int fd = memfd_create("dmabuf", 0);
    ASSERT_GE(fd, 0);
    fake_.refuse_errno = i % 10 == 9 ? EINVAL : 0;
    Result<ibv_mr*> mr = cache_.acquire({(i / 2) * kPage, kPage}, {true, fd, 0, false});
    if (mr) held.push_back(*mr);
    EXPECT_EQ(close(fd), 0) << "the caller's descriptor was closed";
    EXPECT_EQ(open_files(), before) << "the file is held";
  }
  for (ibv_mr* mr : held) cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace gdr::transport
