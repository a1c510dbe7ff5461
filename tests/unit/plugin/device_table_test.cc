#include "plugin/device_table.h"

#include <gmock/gmock.h>

#include "plugin/abi/nccl_types.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;

DeviceFacts device(const std::string& hca, int port, uint64_t guid) {
  DeviceFacts facts;
  facts.hca = hca;
  facts.port = port;
  facts.guid = guid;
  return facts;
}

DeviceProperties properties_of(DeviceTable* table, int index) {
  DeviceProperties properties{};
  EXPECT_TRUE(table->get(index, &properties));
  return properties;
}

// NCCL plans with the speed, and divides by it.
TEST(DeviceTable, UnknownSpeed_IsReportedAs10Gbps) {
  DeviceTable table({device("mlx5_0", 1, 1)});
  EXPECT_EQ(properties_of(&table, 0).speed_mbps, 10000);
  EXPECT_THAT(table.describe()[0], testing::HasSubstr(" 10 Gb/s "));
}

TEST(DeviceTable, DataDirect_HasNetIbsNameAndIsFlushed) {
  DeviceFacts facts = device("mlx5_0", 1, 1);
  DeviceTable without({facts});
  EXPECT_FALSE(properties_of(&without, 0).force_flush);
  facts.data_direct = true;
  DeviceFacts second = facts;
  second.port = 2;
  DeviceTable table({facts, second});
  EXPECT_STREQ(properties_of(&table, 0).name, "mlx5_0_dma");
  EXPECT_STREQ(properties_of(&table, 1).name, "mlx5_0_dma:2");
  EXPECT_TRUE(properties_of(&table, 0).force_flush);
  EXPECT_THAT(table.describe()[0], testing::HasSubstr("Data Direct pci"));
}

TEST(DeviceTable, RailAndPlane_AreReportedWhereTheyAreKnownAndFit) {
  struct Case {
    int rail, plane, reported_rail, reported_plane;
  };
  for (const Case& one :
       {Case{DeviceFacts{}.rail, DeviceFacts{}.plane, abi::kNetIdUndefined, abi::kNetIdUndefined},
        Case{0, -1, 0, -1}, Case{7, 2, 7, 2}, Case{32767, -1, 32767, -1},
        Case{32768, 32768, -1, -1}, Case{65536, -1, -1, -1}, Case{-2, -1, -1, -1}}) {
    DeviceFacts facts = device("mlx5_0", 1, 1);
    facts.rail = one.rail;
    facts.plane = one.plane;
    DeviceTable table({facts});
    EXPECT_EQ(properties_of(&table, 0).rail, one.reported_rail) << one.rail;
    EXPECT_EQ(properties_of(&table, 0).plane, one.reported_plane) << one.plane;
  }
}

// NCCL refuses a device that reports more (NCCL_MAX_NET_SIZE_BYTES).
TEST(DeviceTable, LargestMessage_IsThatOfThePortUpToNcclsLimit) {
  DeviceFacts facts = device("mlx5_0", 1, 1);
  facts.max_message_bytes = size_t{128} << 30;
  DeviceTable table({facts});
  EXPECT_EQ(properties_of(&table, 0).max_p2p_bytes, size_t{128} << 30);
  facts.max_message_bytes = (size_t{1} << 40) + 1;
  table.add(facts);
  EXPECT_EQ(properties_of(&table, 1).max_p2p_bytes, size_t{1} << 40);
}

TEST(DeviceTable, NoSuchDevice_IsRejected) {
  DeviceTable table({device("mlx5_0", 1, 1)});
  DeviceProperties properties;
  EXPECT_FALSE(table.get(-1, &properties));
  EXPECT_FALSE(table.get(1, &properties));
  EXPECT_FALSE(table.get(0, nullptr));
  EXPECT_FALSE(DeviceTable().get(0, &properties));
}

// Functions of one card differ in port; unknown GUIDs are not taken for one card.
TEST(DeviceTable, PortsAndFunctionsOfOneCard_HaveNamesAndPortsOfTheirOwn) {
  DeviceTable table({device("mlx5_0", 1, 7), device("mlx5_0", 2, 7), device("mlx5_1", 1, 8),
                     device("mlx5_2", 1, 8), device("mlx5_3", 1, 8), device("rxe0", 1, 0),
                     device("rxe1", 1, 0)});
  const std::pair<const char*, int> expected[] = {{"mlx5_0", 1}, {"mlx5_0:2", 2}, {"mlx5_1", 1},
                                                  {"mlx5_2", 2}, {"mlx5_3", 3},   {"rxe0", 1},
                                                  {"rxe1", 1}};
  for (int i = 0; i < 7; ++i) {
    EXPECT_STREQ(properties_of(&table, i).name, expected[i].first);
    EXPECT_EQ(properties_of(&table, i).port, expected[i].second) << expected[i].first;
    EXPECT_EQ(properties_of(&table, i).pci_path, nullptr) << "on no PCI function";
  }
}

// Short names are stored inside their string, so that they would move with it.
TEST(DeviceTable, StringsOfADevice_StayWhereTheyAreWhileOthersAreAdded) {
  DeviceFacts first = device("mlx5_0", 1, 1);
  first.pci_path = "/sys/a";
  DeviceTable built({first}), table = std::move(built);
  const DeviceProperties before = properties_of(&table, 0);
  for (int i = 1; i < 200; ++i) table.add(device("mlx5_" + std::to_string(i), 1, 1));
  const DeviceProperties after = properties_of(&table, 0);
  EXPECT_EQ(before.name, after.name);
  EXPECT_EQ(before.pci_path, after.pci_path);
  EXPECT_STREQ(before.name, "mlx5_0");
  EXPECT_STREQ(before.pci_path, "/sys/a");
  EXPECT_STREQ(properties_of(&table, 199).name, "mlx5_199");
  EXPECT_EQ(properties_of(&table, 199).port, 200);
}

TEST(DeviceTable, PointerSupport_FollowsTheRegistrationPaths) {
  DeviceFacts both = device("mlx5_0", 1, 1), address = device("mlx5_1", 1, 2);
  both.gdr = {true, true};
  address.gdr = {false, true};
  DeviceTable table({both, address, device("mlx5_2", 1, 3)});
  EXPECT_EQ(properties_of(&table, 0).pointer_support,
            abi::kPtrHost | abi::kPtrCuda | abi::kPtrDmaBuf);
  EXPECT_EQ(properties_of(&table, 1).pointer_support, abi::kPtrHost | abi::kPtrCuda);
  EXPECT_EQ(properties_of(&table, 2).pointer_support, abi::kPtrHost);
}

TEST(DeviceTable, Description_HasALineForEachDevice) {
  DeviceFacts first = device("mlx5_0", 1, 1), second = device("rxe0", 2, 2);
  first.pci_name = "0000:1a:00.0";
  first.numa_node = 1;
  first.rail = 3;
  first.speed_mbps = 400000;
  first.gdr_text = "dma-buf, peermem";
  second.ethernet = true;
  second.speed_mbps = 25000;
  second.gdr_text = "off: neither dma-buf nor peermem";
  EXPECT_THAT(DeviceTable({first, second}).describe(),
              ElementsAre("[0] mlx5_0:1 InfiniBand 400 Gb/s pci 0000:1a:00.0 numa 1 rail 3 "
                          "GPUDirect dma-buf, peermem",
                          "[1] rxe0:2 RoCE 25 Gb/s pci none numa -1 rail -1 GPUDirect off: "
                          "neither dma-buf nor peermem"));
}

}  // namespace
}  // namespace gdr::plugin
