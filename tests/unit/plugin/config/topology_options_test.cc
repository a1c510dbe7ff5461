#include "plugin/config/topology_options.h"

#include <gmock/gmock.h>

#include "plugin/config/load.h"
#include "tests/unit/topology/machines.h"

namespace gdr::config {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(TopologyOptions, AllowedPaths_NeedBothVariablesForDmaBuf) {
  EXPECT_TRUE(allowed_paths(Options{}).dmabuf);
  EXPECT_FALSE(allowed_paths(load({{"NCCL_DMABUF_ENABLE", "0"}}, nullptr)).dmabuf);
  auto peermem = allowed_paths(load({{"GDR_NCCL_GPU_MEMORY", "peermem"}}, nullptr));
  EXPECT_FALSE(peermem.dmabuf);
  EXPECT_TRUE(peermem.peermem);
}

TEST(TopologyOptions, DiscoveryOptions_DataDirectNeedsTheFlush) {
  struct Case {
    Environment environment;
    bool without_flush, with_flush;  // where NCCL's table has it
  };
  for (const Case& one :
       {Case{{}, false, true}, Case{{{"NCCL_NET_FORCE_FLUSH", "1"}}, true, true},
        Case{{{"NCCL_NET_FORCE_FLUSH", "1"}, {"NCCL_GDR_FLUSH_DISABLE", "1"}}, false, false},
        Case{{{"NCCL_IB_DATA_DIRECT", "0"}, {"NCCL_NET_FORCE_FLUSH", "1"}}, false, false}}) {
    const Options options = load(one.environment, nullptr);
    EXPECT_EQ(discovery_options(options, false).data_direct, one.without_flush);
    EXPECT_EQ(discovery_options(options, true).data_direct, one.with_flush);
  }
}

TEST(TopologyOptions, DiscoveryOptions_HaveTheFilterAndTheSpeedQuery) {
  EXPECT_TRUE(discovery_options(Options{}, true).query_port_speed);
  Options options = load({{"NCCL_IB_HCA", "^mlx5_1"}, {"NCCL_IB_QUERY_PORT_SPEED", "0"}}, nullptr);
  EXPECT_FALSE(discovery_options(options, true).query_port_speed);
  EXPECT_FALSE(discovery_options(options, true).hcas.accepts("mlx5_1", 1));
}

TEST(TopologyOptions, GpuSelection_AddsTheVendorForTests) {
  EXPECT_THAT(gpu_selection().gpu_vendors, Not(Contains(0x1234)));
  setenv("GDR_TEST_GPU_VENDOR", "0x1234", 1);
  EXPECT_THAT(gpu_selection().gpu_vendors, Contains(0x1234));
  EXPECT_THAT(gpu_selection().gpu_vendors, Contains(topology::kNvidia));
  unsetenv("GDR_TEST_GPU_VENDOR");
}

TEST(TopologyOptions, TopologyFile_IsTheUsers) {
  EXPECT_EQ(read_options(load({{"NCCL_TOPO_FILE", "/a.xml"}}, nullptr)).topology_file, "/a.xml");
  EXPECT_EQ(read_options(load({{"NCCL_TOPO_FILE", ""}}, nullptr)).topology_file, "/dev/null");
  EXPECT_FALSE(read_options(Options{}).default_topology_file.empty());
}

TEST(TopologyOptions, PortsNamedInFull_AreNamedWithTheirRails) {
  topology::Machine machine = topology::two_sockets_with_switches();
  auto named = [&](const std::string& hcas) {
    return decision_options(load({{"NCCL_IB_HCA", hcas}}, nullptr), machine).rails.named;
  };
  EXPECT_THAT(named("mlx5"), IsEmpty());
  EXPECT_THAT(named("=mlx5_4"), SizeIs(2));
  ASSERT_THAT(named("=mlx5_2:1:5"), SizeIs(1));
  EXPECT_EQ(named("=mlx5_2:1:5")[0].hca, "mlx5_2");
  EXPECT_EQ(named("=mlx5_2:1:5")[0].port, 1);
  EXPECT_EQ(named("=mlx5_2:1:5")[0].rail, 5);
  EXPECT_EQ(named("=mlx5_2")[0].rail, -1);
}

}  // namespace
}  // namespace gdr::config
