// Over the fake CUDA driver, and a table that notes what it is told.
#include "tools/perf/registration.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/cuda/fake_driver.h"
#include "tools/perf/rank_memory.h"

namespace gdr::tools {
namespace {
using testing::HasSubstr;

struct Told {
  const char* entry = "";
  void* data = nullptr;
  size_t bytes = 0;
  int type = 0;
  uint64_t offset = 0;
  int fd = -1;
  bool fd_open = false;
  int deregistered = 0;
};
Told g_told;

abi::ncclNet_v8_t noting_table() {
  abi::ncclNet_v8_t net{};
  net.regMr = [](void*, void* data, size_t bytes, int type, void** mhandle) {
    g_told = Told{"regMr", data, bytes, type};
    *mhandle = &g_told;
    return abi::ncclSuccess;
  };
  net.regMrDmaBuf = [](void*, void* data, size_t bytes, int type, uint64_t offset, int fd,
                       void** mhandle) {
    g_told = Told{"regMrDmaBuf", data, bytes, type, offset, fd, fcntl(fd, F_GETFD) >= 0};
    *mhandle = &g_told;
    return abi::ncclSuccess;
  };
  net.deregMr = [](void*, void* mhandle) {
    ++static_cast<Told*>(mhandle)->deregistered;
    return abi::ncclSuccess;
  };
  return net;
}

constexpr size_t kBytes = 100000;

class RegistrationTest : public testing::Test {
 protected:
  static Result<RankMemory> open(const MemoryPlace& place, int rank = 0) {
    fake_cuda::Driver::load();
    return RankMemory::open(place, rank);
  }

  const abi::ncclNet_v8_t net_ = noting_table();
};

TEST_F(RegistrationTest, HostMemory_GoesByItsAddress) {
  auto memory = open({});
  auto buffer = memory->allocate(kBytes);
  auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kHostAddress);
  ASSERT_TRUE(registered);
  EXPECT_STREQ(g_told.entry, "regMr");
  EXPECT_EQ(g_told.type, abi::kPtrHost);
  EXPECT_EQ(memory->text(), "host");
}

TEST_F(RegistrationTest, DeviceAddress_IsToldAsCudaMemory) {
  auto memory = open({true, 1});
  ASSERT_TRUE(memory) << memory.error().text;
  auto buffer = memory->allocate(kBytes);
  ASSERT_TRUE(buffer) << buffer.error().text;
  {
    auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kDeviceAddress);
    ASSERT_TRUE(registered);
    EXPECT_STREQ(g_told.entry, "regMr");
    EXPECT_EQ(g_told.type, abi::kPtrCuda);
    EXPECT_EQ(g_told.data, buffer->data());
    EXPECT_EQ(g_told.bytes, kBytes);
  }
  EXPECT_EQ(g_told.deregistered, 1);
}

TEST_F(RegistrationTest, DmaBuf_IsOfWholePagesAndClosedAfterwards) {
  auto memory = open({true, 0});
  ASSERT_TRUE(memory) << memory.error().text;
  ASSERT_TRUE(memory->exports_dmabuf());
  auto buffer = memory->allocate(kBytes);
  ASSERT_TRUE(buffer) << buffer.error().text;
  // The fake refuses ranges of other than whole pages.
  auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kDmaBuf);
  ASSERT_TRUE(registered) << registered.error().text;
  EXPECT_STREQ(g_told.entry, "regMrDmaBuf");
  EXPECT_EQ(g_told.type, abi::kPtrCuda);
  EXPECT_EQ(g_told.offset, 0u);
  EXPECT_EQ(g_told.data, buffer->data());
  EXPECT_TRUE(g_told.fd_open);
  EXPECT_LT(fcntl(g_told.fd, F_GETFD), 0);
}

TEST_F(RegistrationTest, CudaWithoutNumber_TakesTheRanksTurn) {
  EXPECT_EQ(open({true, -1}, 0)->text(), "cuda:0 (0000:1a:00.0)");
  EXPECT_EQ(open({true, -1}, 3)->text(), "cuda:1 (0000:1b:00.0)");
}

TEST_F(RegistrationTest, NumberBeyondTheDevices_IsNamedWithTheRange) {
  auto memory = open({true, 2});
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().text, "--memory cuda:2: there are CUDA devices 0..1");
}

TEST(ChooseForCuda, DmaBufWhereBothCan_ElseTheDeviceAddress) {
  constexpr int kAll = abi::kPtrHost | abi::kPtrCuda | abi::kPtrDmaBuf;
  EXPECT_EQ(choose_for_cuda("d", kAll, true), RegisteredBy::kDmaBuf);
  EXPECT_EQ(choose_for_cuda("d", kAll, false), RegisteredBy::kDeviceAddress);
  EXPECT_EQ(choose_for_cuda("d", abi::kPtrHost | abi::kPtrCuda, true),
            RegisteredBy::kDeviceAddress);
  EXPECT_EQ(choose_for_cuda("d", abi::kPtrHost | abi::kPtrDmaBuf, true), RegisteredBy::kDmaBuf);
}

TEST(ChooseForCuda, NoWay_NamesTheDeviceAndItsSupport) {
  auto none = choose_for_cuda("device 1 mlx5_1", abi::kPtrHost, true);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text, HasSubstr("device 1 mlx5_1 of the plugin has ptrSupport HOST:"));
  auto no_export = choose_for_cuda("device 0 mlx5_0", abi::kPtrHost | abi::kPtrDmaBuf, false);
  ASSERT_FALSE(no_export);
  EXPECT_THAT(no_export.error().text, HasSubstr("does not export"));
}
}  // namespace
}  // namespace gdr::tools
