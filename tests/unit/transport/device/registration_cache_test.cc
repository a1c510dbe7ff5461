#include "transport/device/registration_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <vector>

#include "tests/unit/transport/device/fake_registrations.h"

namespace gdr::transport {
namespace {

constexpr int kDmabuf = 3;  // any descriptor; the fake does not use it

class RegistrationCacheTest : public testing::Test {
 protected:
  FakeRegistrations fake_;
  verbs::Api api_ = FakeRegistrations::api();
  RegistrationCache cache_{api_, &fake_, "hca0"};
};

TEST_F(RegistrationCacheTest, UnalignedRange_CoversWholePages) {
  ibv_mr* mr = cache_.acquire({0x10ff0, 32}, {}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mr->addr), 0x10000u);
  EXPECT_EQ(mr->length, 2 * kPage);
}

TEST_F(RegistrationCacheTest, DmabufRange_IsExact) {
  ibv_mr* mr = cache_.acquire({0x10000, 100, false, kDmabuf}, {}).value();
  EXPECT_EQ(mr->length, 100u);
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

TEST_F(RegistrationCacheTest, FailedRegistration_NamesDeviceAndErrno) {
  fake_.fail_with_errno = ENOMEM;
  auto failed = cache_.acquire({0x10000, kPage}, {});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().sys_errno, ENOMEM);
  EXPECT_NE(failed.error().text.find("hca0"), std::string::npos);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(RegistrationCacheTest, RangeThatWrapsAroundOrWhosePagesDo_IsRejected) {
  EXPECT_FALSE(cache_.acquire({UINTPTR_MAX - 10, 100}, {}).has_value());
  EXPECT_EQ(fake_.made, 0) << "the verbs library was called";
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
