// Runs over the fake CUDA driver and a plugin table that records its calls.
#include "tools/perf/rank_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/tools/net/fake_net.h"

namespace gdr::tools {
namespace {
using testing::HasSubstr;

TEST(MemorySpec, OneOrTwoValues_AlternateOverTheRanks) {
  const MemorySpec host{}, device{true, -1}, third{true, 3};
  auto one = parse_memory_specs("cuda:3");
  ASSERT_TRUE(one);
  for (int rank : {0, 5}) EXPECT_EQ(spec_of(rank, *one), third);
  auto two = parse_memory_specs("host,cuda");
  ASSERT_TRUE(two);
  for (int rank : {0, 1, 2}) EXPECT_EQ(spec_of(rank, *two), rank == 1 ? device : host);
}

TEST(MemorySpec, BadValue_IsNamedInTheError) {
  for (const char* bad : {"", "D", "HOST", "cuda:", "cuda:-1", "cuda:-0", "cuda:1x", "cuda: 1",
                          "cuda0", "cuda:99999999999", "host,", ",cuda", "host,cuda,host"}) {
    EXPECT_FALSE(parse_memory_specs(bad)) << bad;
  }
  EXPECT_THAT(parse_memory_specs("cuda:0,gpu").error().text, HasSubstr("\"gpu\""));
}

struct Call {
  const char* entry = "";
  void* data = nullptr;
  size_t bytes = 0;
  int type = 0;
  uint64_t offset = 0;
  int fd = -1;
  bool fd_open = false;
  int deregistered = 0;
};
Call g_call;

class RecordingNet : public FakeNet {
 public:
  abi::ncclResult_t reg_mr(void*, void* data, size_t bytes, int type, void** mhandle) override {
    g_call = Call{"regMr", data, bytes, type};
    *mhandle = &g_call;
    return abi::ncclSuccess;
  }
  abi::ncclResult_t reg_mr_dmabuf(void*, void* data, size_t bytes, int type, uint64_t offset,
                                  int fd, void** mhandle) override {
    g_call = Call{"regMrDmaBuf", data, bytes, type, offset, fd, fcntl(fd, F_GETFD) >= 0};
    *mhandle = &g_call;
    return abi::ncclSuccess;
  }
  abi::ncclResult_t dereg_mr(void*, void* mhandle) override {
    ++static_cast<Call*>(mhandle)->deregistered;
    return abi::ncclSuccess;
  }
};

constexpr size_t kBytes = 100000;

class RegistrationTest : public testing::Test {
 protected:
  static Result<RankMemory> open(const MemorySpec& spec, int rank = 0) {
    fake_cuda::Driver::load();
    return RankMemory::open(spec, rank);
  }

  RecordingNet net_;
};

TEST_F(RegistrationTest, HostMemory_RegistersTheHostAddress) {
  auto memory = open({});
  auto buffer = memory->allocate(kBytes);
  auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kHostAddress);
  ASSERT_TRUE(registered);
  EXPECT_STREQ(g_call.entry, "regMr");
  EXPECT_EQ(g_call.type, abi::kPtrHost);
  EXPECT_EQ(memory->text(), "host");
}

TEST_F(RegistrationTest, DeviceAddress_RegistersCudaMemory) {
  auto memory = open({true, 1});
  ASSERT_TRUE(memory) << memory.error().text;
  auto buffer = memory->allocate(kBytes);
  ASSERT_TRUE(buffer) << buffer.error().text;
  {
    auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kDeviceAddress);
    ASSERT_TRUE(registered);
    EXPECT_STREQ(g_call.entry, "regMr");
    EXPECT_EQ(g_call.type, abi::kPtrCuda);
    EXPECT_EQ(g_call.data, buffer->data());
    EXPECT_EQ(g_call.bytes, kBytes);
  }
  EXPECT_EQ(g_call.deregistered, 1);
}

TEST_F(RegistrationTest, DmaBuf_CoversWholePagesAndIsClosedAfterwards) {
  auto memory = open({true, 0});
  ASSERT_TRUE(memory) << memory.error().text;
  ASSERT_TRUE(memory->exports_dmabuf());
  auto buffer = memory->allocate(kBytes);
  ASSERT_TRUE(buffer) << buffer.error().text;
  // The fake driver rejects ranges that are not whole pages.
  auto registered = register_memory(net_, nullptr, *buffer, RegisteredBy::kDmaBuf);
  ASSERT_TRUE(registered) << registered.error().text;
  EXPECT_STREQ(g_call.entry, "regMrDmaBuf");
  EXPECT_EQ(g_call.type, abi::kPtrCuda);
  EXPECT_EQ(g_call.offset, 0u);
  EXPECT_EQ(g_call.data, buffer->data());
  EXPECT_TRUE(g_call.fd_open);
  EXPECT_LT(fcntl(g_call.fd, F_GETFD), 0);
}

TEST(ChooseForCuda, DmaBufWhereBothSupportIt_ElseTheDeviceAddress) {
  constexpr int kAll = abi::kPtrHost | abi::kPtrCuda | abi::kPtrDmaBuf;
  EXPECT_EQ(choose_for_cuda("d", kAll, true), RegisteredBy::kDmaBuf);
  EXPECT_EQ(choose_for_cuda("d", kAll, false), RegisteredBy::kDeviceAddress);
  EXPECT_EQ(choose_for_cuda("d", abi::kPtrHost | abi::kPtrCuda, true),
            RegisteredBy::kDeviceAddress);
  EXPECT_EQ(choose_for_cuda("d", abi::kPtrHost | abi::kPtrDmaBuf, true), RegisteredBy::kDmaBuf);
}
}  // namespace
}  // namespace gdr::tools
