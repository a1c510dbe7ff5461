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

constexpr int kDmabuf = 3;  // any descriptor; the fake does not use it

class RegistrationCacheTest : public testing::Test {
 protected:
  bool has_covering(const MemoryRegion& region) {
    int before = fake_.made;
    cache_.release(cache_.acquire(region, {}).value());
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

TEST_F(RegistrationCacheTest, SubRange_UsesTheLargerRegistration) {
  ibv_mr* whole = cache_.acquire({0x10000, 0x10000}, {}).value();
  EXPECT_EQ(cache_.acquire({0x14000, 100}, {}).value(), whole);
}

TEST_F(RegistrationCacheTest, SubRange_HoldsTheLargerRegistration) {
  ibv_mr* whole = cache_.acquire({0x10000, 0x10000}, {}).value();
  ibv_mr* part = cache_.acquire({0x14000, 100}, {}).value();
  cache_.release(whole);
  EXPECT_EQ(fake_.live, 1);
  cache_.release(part);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, SubRangeBehindManySmallerOnes_UsesTheLargerRegistration) {
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
  ibv_mr* mr = cache_.acquire({0x10000, 100, false, kDmabuf}, {}).value();
  EXPECT_EQ(mr->length, 100u);
}

TEST_F(RegistrationCacheTest, Kinds_DoNotServeEachOther) {
  std::vector<ibv_mr*> mrs;
  for (int fd : {-1, kDmabuf}) {
    for (PciOrdering ordering : {PciOrdering::kStrict, PciOrdering::kRelaxed}) {
      mrs.push_back(cache_.acquire({0x10000, kPage, false, fd}, ordering).value());
    }
  }
  EXPECT_EQ(fake_.made, 4);
  for (ibv_mr* mr : mrs) cache_.release(mr);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, GpuBytes_AreThoseRegisteredNow) {
  ibv_mr* mr = cache_.acquire({0x10000, 2 * kPage, true, kDmabuf}, {}).value();
  ibv_mr* part = cache_.acquire({0x10000, kPage, true, kDmabuf}, {}).value();
  cache_.acquire({0x10000, kPage}, {}).value();
  EXPECT_EQ(cache_.gpu_bytes(), 2 * kPage);
  cache_.release(part);
  cache_.release(mr);
  EXPECT_EQ(cache_.gpu_bytes(), 0u);
}

TEST_F(RegistrationCacheTest, EveryOrderOfAcquireAndRelease_FindsACoveringOne) {
  const std::array<MemoryRegion, 4> ranges{{{16 * kPage, 16 * kPage},  // holds the next two
                                            {20 * kPage, 8 * kPage},   // holds the next
                                            {20 * kPage, 4 * kPage},
                                            {24 * kPage, 12 * kPage}}};  // overlaps the first two
  std::array<size_t, 4> acquired{0, 1, 2, 3};
  do {
    std::array<size_t, 4> released{0, 1, 2, 3};
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
      for (size_t i : acquired) held[i] = cache_.acquire(ranges[i], {}).value();
      for (size_t i : released) {
        ASSERT_NO_FATAL_FAILURE(check());
        cache_.release(std::exchange(held[i], nullptr));
      }
      ASSERT_EQ(fake_.live, 0);
    } while (std::next_permutation(released.begin(), released.end()));
  } while (std::next_permutation(acquired.begin(), acquired.end()));
}

TEST_F(RegistrationCacheTest, FailedRegistration_NamesDeviceErrnoAndFix) {
  fake_.fail_with_errno = ENOMEM;
  auto failed = cache_.acquire({0x10000, kPage}, {});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().sys_errno, ENOMEM);
  EXPECT_NE(failed.error().text.find("hca0"), std::string::npos);
  EXPECT_NE(failed.error().text.find("ulimit -l"), std::string::npos);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(RegistrationCacheTest, FailedRegistration_DoesNotBlockTheNext) {
  fake_.fail_with_errno = EFAULT;
  EXPECT_FALSE(cache_.acquire({0x10000, kPage}, {}).has_value());
  fake_.fail_with_errno = 0;
  Result<ibv_mr*> mr = cache_.acquire({0x10000, kPage}, {});
  ASSERT_TRUE(mr.has_value());
  cache_.release(*mr);
  EXPECT_EQ(fake_.live, 0);
}

TEST_F(RegistrationCacheTest, RangeAroundTheAddressSpace_IsRejected) {
  EXPECT_FALSE(cache_.acquire({UINTPTR_MAX - 10, 100}, {}).has_value());
  EXPECT_EQ(fake_.made, 0) << "the verbs library was called";
}

TEST_F(RegistrationCacheTest, RangeWhosePagesWrapAround_IsRejected) {
  EXPECT_FALSE(cache_.acquire({UINTPTR_MAX - 100, 50}, {}).has_value());
  EXPECT_TRUE(cache_.acquire({UINTPTR_MAX - 100, 50, false, kDmabuf}, {}).has_value());
  EXPECT_TRUE(cache_.acquire({UINTPTR_MAX - 2 * kPage, kPage}, {}).has_value());
}

TEST_F(RegistrationCacheTest, DmabufDescriptors_AreNeitherHeldNorClosed) {
  auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  fake_.while_registering_dmabuf = [](int fd) { EXPECT_GE(fcntl(fd, F_GETFD), 0); };
  const auto before = open_files();
  std::vector<ibv_mr*> held;
  for (uintptr_t i = 0; i < 300; ++i) {
    int fd = memfd_create("dmabuf", 0);
    ASSERT_GE(fd, 0);
    fake_.fail_with_errno = i % 10 == 9 ? EINVAL : 0;
    Result<ibv_mr*> mr = cache_.acquire({(i / 2) * kPage, kPage, false, fd}, {});
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
