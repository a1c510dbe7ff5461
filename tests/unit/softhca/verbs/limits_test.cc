// What a device or process may not exceed: locked memory and numbers of objects.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/memory.h"

namespace {
bool g_shared_memory_is_full = false;
}

// In place of the C library's.
extern "C" [[gnu::visibility("default")]] int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (g_shared_memory_is_full) return ENOSPC;
  return syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace softhca_test {
namespace {

using Limits = Configured;

constexpr size_t kPage = 4096;

CqPtr make_cq(ibv_context* context, int entries) {
  return CqPtr(ibv_create_cq(context, entries, nullptr, nullptr, 0));
}

TEST_F(Limits, ChannelBeyondTheMost_OtherEventsGoOn) {
  use("{}");
  Pair pair;
  std::vector<ChannelPtr> channels;
  do {
    channels.emplace_back(ibv_create_comp_channel(pair.a.context()));
  } while (channels.back() != nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GT(channels.size(), 500U);
  Buffer from(pair.b, 8);
  EXPECT_EQ(status_of(pair.b, Request(IBV_WR_RDMA_WRITE, from.sge(), 0, 1)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(ibv_create_comp_channel(pair.a.context()), nullptr);
}

// One page for the CQ, and one for the QP: its sends take 256 bytes each, its receives 16.
TEST_F(Limits, LockedMemory_OfRegistrationsCqsAndQps) {
  use(R"({"memlock_bytes": 12288, "devices": [{}, {}]})");
  ContextPtr context = open_device(0);
  PdPtr pd(ibv_alloc_pd(context.get()));
  std::vector<uint8_t> bytes(5 * kPage);
  auto reg = [&](size_t offset, size_t size) {
    auto* page = reinterpret_cast<uint8_t*>(
        (reinterpret_cast<uintptr_t>(bytes.data()) + kPage - 1) / kPage * kPage);
    return MrPtr(ibv_reg_mr(pd.get(), page + offset, size, kAllAccess));
  };
  EXPECT_EQ(reg(1, 3 * kPage), nullptr) << "four pages are touched";
  EXPECT_EQ(errno, ENOMEM);
  CqPtr cq = make_cq(context.get(), 63);
  QpPtr qp = make_qp(pd.get(), cq.get());
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(reg(0, kPage + 1), nullptr);
  MrPtr last = reg(kPage - 1, 1);
  ASSERT_NE(last, nullptr);
  errno = 0;
  EXPECT_EQ(make_cq(context.get(), 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 64), ENOMEM);
  EXPECT_EQ(make_qp(pd.get(), cq.get()), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  qp.reset();
  EXPECT_NE(make_qp(pd.get(), cq.get()), nullptr) << "what was destroyed does not count";
  last.reset();
  EXPECT_NE(reg(0, kPage), nullptr);
}

TEST_F(Limits, FullSharedMemory_LeavesNoDevicesAndIsReportedOnceLater) {
  use(R"({"devices": [{}], "fabric": "full"})");
  testing::internal::CaptureStderr();
  g_shared_memory_is_full = true;
  ibv_free_device_list(ibv_get_device_list(nullptr));
  g_shared_memory_is_full = false;
  Endpoint endpoint;
  std::vector<uint8_t> bytes(kPage);
  g_shared_memory_is_full = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(endpoint.reg(bytes.data(), bytes.size()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(make_cq(endpoint.context(), 1), nullptr);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("softhca: no devices: reserve in /dev/shm/softhca-"), 0) << text;
  EXPECT_NE(text.find("softhca: no memory in /dev/shm: No space left on device"), text.npos);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
}

TEST_F(Limits, MaxQp_OfEachDevice) {
  use(R"({"devices": [{"max_qp": 2}, {}]})");
  Endpoint first;
  QpPtr second = make_qp(first.pd(), first.cq());
  ASSERT_NE(second, nullptr);
  for (int i = 0; i < 2; ++i) {
    errno = 0;
    EXPECT_EQ(make_qp(first.pd(), first.cq()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  Endpoint other({.device = 1});
  second.reset();
  EXPECT_NE(make_qp(first.pd(), first.cq()), nullptr);
}

struct DmaBufCase {
  const char* what;
  int error;
  uint64_t offset = 0, iova = 0;  // iova from the start of the first export
  size_t bytes = 2 * kPage;
  int exported = 0;  // 0: two pages from the start, 1: two pages behind them, 2: of other memory
};

constexpr DmaBufCase kDmaBufs[] = {
    {.what = "all of it", .error = 0},
    {.what = "its second page", .error = 0, .offset = kPage, .iova = kPage, .bytes = kPage},
    {.what = "a part of a page", .error = 0, .offset = 8, .iova = 8, .bytes = 16},
    {.what = "longer than it", .error = EINVAL, .bytes = 2 * kPage + 1},
    {.what = "an offset behind its end", .error = EINVAL, .offset = kPage, .iova = kPage},
    {.what = "an end beyond all numbers", .error = EINVAL, .offset = ~kPage + 1},
    {.what = "another place in the page", .error = EINVAL, .offset = 8, .bytes = 16},
    {.what = "an offset of another page", .error = EINVAL, .offset = kPage, .bytes = kPage},
    {.what = "no bytes", .error = EINVAL, .bytes = 0},
    {.what = "the next pages", .error = EINVAL, .exported = 1},
    {.what = "other memory", .error = EINVAL, .exported = 2},
};

TEST_F(Limits, DmaBuf_RangeWithinTheDescriptorOfThatMemory) {
  use(R"({"devices": [{}]})");
  Endpoint endpoint;
  const fake_cuda::Driver& driver = fake_cuda::Driver::load();
  driver.api.init(0);
  const fake_cuda::DeviceBuffer buffer(driver, 0, 4 * kPage), other(driver, 0, 4 * kPage);
  const gdr::UniqueFd exports[] = {export_dmabuf(0, buffer.address(), 2 * kPage),
                                   export_dmabuf(0, buffer.address() + 2 * kPage, 2 * kPage),
                                   export_dmabuf(0, other.address(), 2 * kPage)};
  for (const DmaBufCase& one : kDmaBufs) {
    errno = 0;
    MrPtr mr = reg_dmabuf(endpoint, exports[one.exported].get(), one.offset, one.bytes,
                          buffer.address() + one.iova);
    EXPECT_EQ(mr == nullptr ? errno : 0, one.error) << one.what;
  }
  // As long, but not the driver's.
  const gdr::UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(reg_dmabuf(endpoint, file.get(), 0, 2 * kPage, buffer.address()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg_dmabuf(endpoint, 999, 0, 2 * kPage, buffer.address()), nullptr);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace softhca_test
