#include "transport/device/hca.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "tests/fakes/verbs/fake_verbs.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

struct HcaTest : testing::Test {
  fake_verbs::FakeVerbs verbs;

  Discovery discover(const char* filter = "") {
    return discover_devices(verbs.api(), {.hcas = HcaFilter::parse(filter).value()}).value();
  }
  static std::vector<std::string> names(const std::vector<Device>& devices) {
    std::vector<std::string> all;
    for (const Device& device : devices) {
      all.push_back(device.hca->name() + ":" + std::to_string(device.port));
    }
    return all;
  }
};
using Names = std::vector<std::string>;

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

TEST_F(HcaTest, Discover_ListsActivePortsInTheLibrarysOrder) {
  auto two_ports = HcaConfig::infiniband("mlx5_1", 2);
  two_ports.ports.push_back(two_ports.ports[0]);
  verbs.add_hca(two_ports);
  verbs.add_hca(HcaConfig::roce("mlx5_0", 1));
  Discovery found = discover();
  EXPECT_EQ(names(found.devices), (Names{"mlx5_1:1", "mlx5_1:2", "mlx5_0:1"}));
  EXPECT_TRUE(found.skipped.empty());
  EXPECT_FALSE(found.devices[0].state.ethernet);
  EXPECT_EQ(found.devices[0].state.lid, 2);
  EXPECT_TRUE(found.devices[2].state.ethernet);
  EXPECT_EQ(found.devices[2].speed_mbps, 200000);
  EXPECT_EQ(found.devices[0].hca, found.devices[1].hca) << "ports share the context";
}

TEST_F(HcaTest, Discover_PortDown_IsInactiveWithItsReason) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.port("mlx5_0", 1).active = false;
  Discovery found = discover();
  EXPECT_TRUE(found.devices.empty());
  EXPECT_EQ(names(found.inactive), Names{"mlx5_0:1"});
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.skipped[0], (SkippedPort{FindingKind::kPortDown, "mlx5_0:1", "is not ACTIVE"}));
  EXPECT_EQ(to_string(found.skipped[0]), "mlx5_0:1 is not ACTIVE");
}

TEST_F(HcaTest, Discover_FilteredOut_NamesTheVariable) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  Discovery found = discover("=mlx5_1");
  EXPECT_EQ(names(found.devices), Names{"mlx5_1:1"});
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.skipped[0],
            (SkippedPort{FindingKind::kHcaExcluded, "mlx5_0:1", "is excluded by NCCL_IB_HCA"}));
}

TEST_F(HcaTest, Discover_HcaOrPortFails_TheOthersAreListed) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  for (Call call : {Call::kOpenDevice, Call::kQueryPort}) {
    verbs.fail_call(call, ENODEV);
    Discovery found = discover();
    EXPECT_EQ(names(found.devices), Names{"mlx5_1:1"});
    ASSERT_EQ(found.skipped.size(), 1u);
    EXPECT_EQ(found.skipped[0].kind, FindingKind::kHcaFailed);
    EXPECT_NE(to_string(found.skipped[0]).find("mlx5_0"), std::string::npos);
  }
}

TEST_F(HcaTest, Discover_DeviceFileIsMissingOrForbidden_TheFixIsForContainers) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  for (int err : {EACCES, EPERM, ENOENT, ENODEV}) {
    verbs.fail_call(Call::kOpenDevice, err, 1);
    const std::string text = no_device_text(discover("=mlx5_1").skipped);
    EXPECT_THAT(text, testing::HasSubstr("; opening mlx5_1 failed: "));
    EXPECT_EQ(text.ends_with("unless NCCL_NET=GDR"), err == ENODEV) << text;
    EXPECT_EQ(text.find("GDR. Fix: pass /dev/infiniband") == text.npos, err == ENODEV) << text;
  }
  EXPECT_THAT(no_device_text({}), testing::HasSubstr("lists none. NCCL continues"));
  EXPECT_THAT(no_device_text({}), testing::HasSubstr("Fix: load the HCA's driver"));
}

TEST_F(HcaTest, Discover_KernelWithoutRdma_IsAnErrorThatSaysSoAndHowToFixIt) {
  verbs.fail_call(Call::kGetDeviceList, ENOSYS);
  auto found = discover_devices(verbs.api(), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().sys_errno, ENOSYS);
  EXPECT_TRUE(found.error().text.starts_with("no RDMA device: the kernel has no RDMA support"));
  EXPECT_NE(found.error().text.find(". Fix: load the HCA's driver"), std::string::npos);
}

TEST_F(HcaTest, Discover_EntryOfTheFilterWithoutAPort_IsAFindingThatNamesThePorts) {
  auto two_ports = HcaConfig::infiniband("mlx5_0", 1);
  two_ports.ports.push_back(two_ports.ports.front());
  verbs.add_hca(two_ports);
  verbs.add_hca(HcaConfig::infiniband("mlx5_10", 3));
  auto findings = [&](const char* list) {
    DiscoveryOptions options;
    options.hcas = HcaFilter::parse(list).value();
    std::string text;
    const Discovery found = discover_devices(verbs.api(), options).value();
    for (const Finding& finding : found.findings) {
      text += (finding.severity == Severity::kWarning ? "WARN " : "INFO ") + to_string(finding);
    }
    return text;
  };
  EXPECT_EQ(findings("mlx5_9,mlx5_0:2"),
            "WARN NCCL_IB_HCA: 'mlx5_9' matches no port of this machine, whose HCAs are mlx5_0, "
            "mlx5_10. Fix: correct a name that is misspelt; nothing to do where the list is for "
            "several kinds of machine");
  EXPECT_EQ(findings("mlx5_9,mlx5_0:3"),
            "WARN NCCL_IB_HCA: 'mlx5_9', 'mlx5_0:3' match no port of this machine, whose HCAs are "
            "mlx5_0, mlx5_10. Fix: name HCAs of this machine");
  EXPECT_THAT(findings("^mlx5_9"),
              AllOf(testing::StartsWith("WARN "), testing::HasSubstr("Fix: correct a name")));
  verbs.fail_call(Call::kOpenDevice, EIO);
  EXPECT_EQ(findings("mlx5_0:3"), "") << "the ports of an HCA that cannot be opened are unknown";
}

TEST_F(HcaTest, Discover_NoDevices_IsEmpty) { EXPECT_TRUE(discover().devices.empty()); }

}  // namespace
}  // namespace gdr::transport
