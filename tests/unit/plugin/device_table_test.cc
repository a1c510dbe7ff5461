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

TEST(DeviceTable, Facts_AreReportedAsTheyAre) {
  DeviceFacts facts = device("mlx5_0", 1, 0xabc);
  facts.pci_path = "/sys/devices/pci0000:3a/0000:3b:00.0";
  facts.speed_mbps = 400000;
  DeviceTable table({facts});
  DeviceProperties properties = properties_of(&table, 0);
  EXPECT_STREQ(properties.name, "mlx5_0");
  EXPECT_STREQ(properties.pci_path, "/sys/devices/pci0000:3a/0000:3b:00.0");
  EXPECT_EQ(properties.guid, 0xabcu);
  EXPECT_EQ(properties.port, 1);
  EXPECT_EQ(properties.speed_mbps, 400000);
  EXPECT_EQ(properties.latency_us, 0);
  EXPECT_EQ(properties.max_recvs, abi::kMaxRecvs);
  EXPECT_GT(properties.max_comms, 0);
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
  DeviceFacts facts = device("mlx5_0", 1, 1);
  EXPECT_EQ(properties_of(std::make_unique<DeviceTable>(std::vector{facts}).get(), 0).rail,
            abi::kNetIdUndefined);
  EXPECT_EQ(properties_of(std::make_unique<DeviceTable>(std::vector{facts}).get(), 0).plane,
            abi::kNetIdUndefined);
  const std::pair<int, int> expected[] = {{0, 0},      {7, 7},      {32767, 32767},
                                          {32768, -1}, {65536, -1}, {-2, -1}};
  for (auto [number, reported] : expected) {
    facts.rail = number;
    facts.plane = number == 7 ? 2 : -1;
    DeviceTable table({facts});
    EXPECT_EQ(properties_of(&table, 0).rail, reported) << number;
    EXPECT_EQ(properties_of(&table, 0).plane, number == 7 ? 2 : -1) << number;
  }
  facts.plane = 32768;
  DeviceTable table({facts});
  EXPECT_EQ(properties_of(&table, 0).plane, abi::kNetIdUndefined);
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

TEST(DeviceTable, DeviceOnNoPciFunction_HasNoPath) {
  DeviceTable table({device("rxe0", 1, 1)});
  EXPECT_EQ(properties_of(&table, 0).pci_path, nullptr);
}

TEST(DeviceTable, PortsOfOneHca_HaveNamesOfTheirOwn) {
  DeviceTable table({device("mlx5_0", 1, 7), device("mlx5_0", 2, 7), device("mlx5_1", 1, 8)});
  EXPECT_STREQ(properties_of(&table, 0).name, "mlx5_0");
  EXPECT_STREQ(properties_of(&table, 1).name, "mlx5_0:2");
  EXPECT_STREQ(properties_of(&table, 2).name, "mlx5_1");
  EXPECT_EQ(properties_of(&table, 0).port, 1);
  EXPECT_EQ(properties_of(&table, 1).port, 2);
}

TEST(DeviceTable, FunctionsOfOneCard_DifferInPort) {
  DeviceTable table({device("mlx5_0", 1, 7), device("mlx5_1", 1, 7), device("mlx5_2", 1, 7)});
  EXPECT_EQ(properties_of(&table, 0).port, 1);
  EXPECT_EQ(properties_of(&table, 1).port, 2);
  EXPECT_EQ(properties_of(&table, 2).port, 3);
}

TEST(DeviceTable, UnknownGuids_AreNotTakenForOneCard) {
  DeviceTable table({device("rxe0", 1, 0), device("rxe1", 1, 0)});
  EXPECT_EQ(properties_of(&table, 1).port, 1);
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
