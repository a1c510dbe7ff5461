#include "transport/device/hca.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/verbs/fake_verbs.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

struct HcaTest : testing::Test {
  fake_verbs::FakeVerbs verbs;
};

TEST_F(HcaTest, Open_ReadsWhatTheDeviceReports) {
  auto config = HcaConfig::infiniband("mlx5_0", 4);
  config.max_work_requests = 1234;
  auto hca = HcaContext::open(verbs.api(), verbs.add_hca(config));
  ASSERT_TRUE(hca);
  EXPECT_EQ((*hca)->name(), "mlx5_0");
  EXPECT_EQ((*hca)->guid(), config.guid) << "host order";
  EXPECT_EQ((*hca)->port_count(), 1);
  EXPECT_EQ((*hca)->max_work_requests(), 1234);
}

// Registers by no descriptor, but fails with that errno.
template <int kErrno>
ibv_mr* refuse(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  errno = kErrno;
  return nullptr;
}

TEST_F(HcaTest, ProbeOfDmabuf_IsDecidedByTheErrno) {
  ibv_device* device = verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  auto supported = [&](auto* reg_dmabuf_mr) {
    verbs.mutable_api().reg_dmabuf_mr = reg_dmabuf_mr;
    return HcaContext::open(verbs.api(), device).value()->supports_dmabuf();
  };
  EXPECT_TRUE(supported(refuse<EBADF>)) << "of the descriptor -1";
  EXPECT_FALSE(supported(refuse<EOPNOTSUPP>)) << "by the driver";
  EXPECT_FALSE(supported(refuse<EPROTONOSUPPORT>)) << "by the driver of older kernels";
  EXPECT_FALSE(supported(refuse<ENOSYS>)) << "by the library's provider";
}

TEST_F(HcaTest, IsGone_OnceAFatalErrorIsReportedOrTheKernelDoesNotAnswer) {
  ibv_device* device = verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  auto hca = HcaContext::open(verbs.api(), device).value();
  EXPECT_FALSE(hca->is_gone());
  verbs.fail_call(Call::kQueryDevice, EIO);
  EXPECT_TRUE(hca->is_gone());
  hca->on_event(IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(hca->is_gone());
  hca->on_event(IBV_EVENT_DEVICE_FATAL);
  EXPECT_TRUE(hca->is_gone());
}

TEST_F(HcaTest, OpenFails_NamesTheDeviceAndLeavesNothing) {
  ibv_device* device = verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  for (Call call : {Call::kOpenDevice, Call::kQueryDevice, Call::kAllocPd}) {
    verbs.fail_call(call, EPERM);
    auto hca = HcaContext::open(verbs.api(), device);
    ASSERT_FALSE(hca);
    EXPECT_EQ(hca.error().sys_errno, EPERM);
    EXPECT_NE(hca.error().text.find("mlx5_0"), std::string::npos);
    EXPECT_EQ(verbs.live(), fake_verbs::LiveObjects{});
  }
}

}  // namespace
}  // namespace gdr::transport
