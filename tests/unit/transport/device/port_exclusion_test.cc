#include "transport/device/port_exclusion.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using fake_verbs::HcaConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct PortExclusion : testing::Test {
  fake_verbs::FakeVerbs verbs;

  // Discovers one HCA of that kind. It must be excluded, whether its port is active or not.
  std::string reason(ibv_transport_type transport, int link_layer, uint32_t vendor_id) {
    auto config = HcaConfig::roce("rdmap16s27", 1);
    config.transport = transport;
    config.vendor_id = vendor_id;
    config.ports[0].other_link_layer = link_layer;
    verbs.add_hca(config);
    std::string reason;
    for (bool active : {true, false}) {
      verbs.port("rdmap16s27", 1).active = active;
      Discovery found = discover_devices(verbs.api(), {}).value();
      EXPECT_THAT(found.devices, IsEmpty());
      EXPECT_THAT(found.inactive, IsEmpty());
      if (found.skipped.size() != 1) return "not skipped";
      if (found.skipped[0].kind != FindingKind::kHcaUnsupported) return "of another kind";
      reason = to_string(found.skipped[0]);
    }
    return reason;
  }
  void add_erdma() {
    auto config = HcaConfig::roce("erdma_0", 1);
    config.transport = IBV_TRANSPORT_IWARP;
    verbs.add_hca(config);
  }
  // hcas: as in NCCL_IB_HCA.
  Discovery discover_with(const char* hcas) {
    return discover_devices(verbs.api(), {.hcas = HcaFilter::parse(hcas).value()}).value();
  }
};

TEST_F(PortExclusion, Efa_IsExcludedByItsNameAndItsPluginIsNamed) {
  EXPECT_THAT(reason(IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED, 0x1d0f),
              AllOf(StartsWith("rdmap16s27:1 is an Elastic Fabric Adapter (EFA)"),
                    HasSubstr("Fix: use the network plugin aws-ofi-nccl")));
}

TEST_F(PortExclusion, Iwarp_IsExcludedAlthoughItsLinkIsEthernet) {
  EXPECT_THAT(reason(IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET, 0x1425),
              AllOf(StartsWith("rdmap16s27:1 is an iWARP device"), HasSubstr("Fix: "),
                    HasSubstr("name the device in NCCL_IB_HCA")));
}

// As eRDMA in its compatible mode, whose queue pairs connect without the connection manager.
TEST_F(PortExclusion, NamedIwarp_IsUsedWithANote) {
  add_erdma();
  for (const char* hcas : {"erdma", "=erdma_0", "erdma_0:1"}) {
    Discovery found = discover_with(hcas);
    ASSERT_EQ(found.devices.size(), 1u) << hcas;
    EXPECT_TRUE(found.devices[0].state.ethernet);
    EXPECT_THAT(found.skipped, IsEmpty());
    ASSERT_EQ(found.findings.size(), 1u);
    EXPECT_EQ(found.findings[0].severity, Severity::kInfo);
    EXPECT_EQ(found.findings[0].subject, "erdma_0:1");
    EXPECT_THAT(found.findings[0].text, HasSubstr("NCCL_IB_HCA names it"));
  }
}

TEST_F(PortExclusion, IwarpThatAListOfExclusionsLeaves_IsExcluded) {
  add_erdma();
  for (const char* hcas : {"^mlx5", "^=mlx5_0", "^erdma_0:2", ""}) {
    Discovery found = discover_with(hcas);
    EXPECT_THAT(found.devices, IsEmpty()) << hcas;
    for (const Finding& finding : found.findings) EXPECT_EQ(finding.subject, "NCCL_IB_HCA");
    ASSERT_EQ(found.skipped.size(), 1u);
    EXPECT_THAT(to_string(found.skipped[0]), StartsWith("erdma_0:1 is an iWARP device"));
  }
}

TEST_F(PortExclusion, NamedIwarpWithoutALink_IsInactiveWithoutANote) {
  add_erdma();
  verbs.port("erdma_0", 1).active = false;
  Discovery found = discover_with("erdma_0");
  EXPECT_THAT(found.devices, IsEmpty());
  EXPECT_EQ(found.inactive.size(), 1u);
  EXPECT_THAT(found.findings, IsEmpty());
}

TEST_F(PortExclusion, OtherKindsThatAreNamed_AreExcluded) {
  const PortKind kinds[] = {
      {IBV_TRANSPORT_UNSPECIFIED, 0x1d0f, IBV_LINK_LAYER_UNSPECIFIED, true},  // EFA
      {IBV_TRANSPORT_UNSPECIFIED, 0x1d93, IBV_LINK_LAYER_ETHERNET, true},
      {IBV_TRANSPORT_UNKNOWN, 0x1d93, IBV_LINK_LAYER_ETHERNET, true},
      {IBV_TRANSPORT_USNIC_UDP, 0x1137, IBV_LINK_LAYER_ETHERNET, true},
      {IBV_TRANSPORT_IWARP, 0x1425, IBV_LINK_LAYER_UNSPECIFIED, true},
      {IBV_TRANSPORT_IWARP, 0x1425, IBV_LINK_LAYER_INFINIBAND, true},
  };
  for (const PortKind& kind : kinds) {
    EXPECT_NE(exclusion_reason(kind), "") << kind.transport;
    EXPECT_FALSE(is_named_iwarp(kind)) << kind.transport;
    const bool is_unknown =
        exclusion_reason(kind).starts_with("is a device of an unknown transport");
    EXPECT_EQ(is_unknown, kind.vendor_id == 0x1d93 || kind.vendor_id == 0x1137);
  }
}

TEST_F(PortExclusion, LinkLayerNeitherInfiniBandNorEthernet_IsExcluded) {
  EXPECT_EQ(reason(IBV_TRANSPORT_IB, IBV_LINK_LAYER_UNSPECIFIED, 0x02c9),
            "rdmap16s27:1 has a link layer that is neither InfiniBand nor Ethernet");
}

TEST_F(PortExclusion, FilteredEfa_IsReportedAsFiltered) {
  auto config = HcaConfig::roce("rdmap16s27", 1);
  config.transport = IBV_TRANSPORT_UNSPECIFIED;
  verbs.add_hca(config);
  DiscoveryOptions options{.hcas = HcaFilter::parse("mlx5").value()};
  EXPECT_EQ(discover_devices(verbs.api(), options).value().skipped.at(0).kind,
            FindingKind::kHcaExcluded);
}

}  // namespace
}  // namespace gdr::transport
