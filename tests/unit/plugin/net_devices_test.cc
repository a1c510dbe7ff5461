#include "plugin/net_devices.h"

#include <gmock/gmock.h>

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceFacts port_on_pci(int index) {
  DeviceFacts facts;
  facts.hca = "mlx5_" + std::to_string(index);
  facts.pci_path = "/sys/devices/pci0000:3a/0000:3b:00." + std::to_string(index);
  facts.guid = 0x100u + static_cast<unsigned>(index);
  facts.speed_mbps = 400000;
  facts.max_message_bytes = size_t{1} << 30;
  facts.rail = index;
  facts.gdr = {true, true};
  facts.gdr_text = "dma-buf, peermem";
  return facts;
}

DeviceFacts device(const std::string& hca, int port, uint64_t guid) {
  DeviceFacts facts;
  facts.hca = hca;
  facts.port = port;
  facts.guid = guid;
  return facts;
}

std::vector<DeviceFacts> four_ports() {
  return {port_on_pci(0), port_on_pci(1), port_on_pci(2), port_on_pci(3)};
}

Result<int> merge(NetDevices* devices, const std::vector<int>& ports,
                  NetDevices::MergeRules rules = {}) {
  return devices->merge(ports, rules);
}

DeviceProperties properties_of(NetDevices* devices, int device) {
  DeviceProperties properties{};
  EXPECT_TRUE(devices->get(device, &properties)) << device;
  return properties;
}

// NCCL plans with the speed, and divides by it.
TEST(NetDevices, UnknownSpeed_IsReportedAs10Gbps) {
  NetDevices table({device("mlx5_0", 1, 1)});
  EXPECT_EQ(properties_of(&table, 0).speed_mbps, 10000);
  EXPECT_THAT(table.describe()[0], testing::HasSubstr(" 10 Gb/s "));
}

TEST(NetDevices, DataDirect_HasNetIbsNameAndIsFlushed) {
  DeviceFacts facts = device("mlx5_0", 1, 1);
  NetDevices without({facts});
  EXPECT_FALSE(properties_of(&without, 0).force_flush);
  facts.data_direct = true;
  DeviceFacts second = facts;
  second.port = 2;
  NetDevices table({facts, second});
  EXPECT_STREQ(properties_of(&table, 0).name, "mlx5_0_dma");
  EXPECT_STREQ(properties_of(&table, 1).name, "mlx5_0_dma:2");
  EXPECT_TRUE(properties_of(&table, 0).force_flush);
  EXPECT_THAT(table.describe()[0], testing::HasSubstr("Data Direct pci"));
}

TEST(NetDevices, RailAndPlane_AreReportedWhereTheyAreKnownAndFit) {
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
    NetDevices table({facts});
    EXPECT_EQ(properties_of(&table, 0).rail, one.reported_rail) << one.rail;
    EXPECT_EQ(properties_of(&table, 0).plane, one.reported_plane) << one.plane;
  }
}

// NCCL refuses a device that reports more (NCCL_MAX_NET_SIZE_BYTES).
TEST(NetDevices, LargestMessage_IsThatOfThePortUpToNcclsLimit) {
  DeviceFacts facts = device("mlx5_0", 1, 1);
  facts.max_message_bytes = size_t{128} << 30;
  DeviceFacts larger = facts;
  larger.max_message_bytes = (size_t{1} << 40) + 1;
  NetDevices table({facts, larger});
  EXPECT_EQ(properties_of(&table, 0).max_p2p_bytes, size_t{128} << 30);
  EXPECT_EQ(properties_of(&table, 1).max_p2p_bytes, size_t{1} << 40);
}

TEST(NetDevices, NoSuchDevice_IsRejected) {
  NetDevices table({device("mlx5_0", 1, 1)});
  DeviceProperties properties;
  EXPECT_FALSE(table.get(-1, &properties));
  EXPECT_FALSE(table.get(1, &properties));
  EXPECT_FALSE(table.get(0, nullptr));
  EXPECT_FALSE(NetDevices().get(0, &properties));
}

// Functions of one card differ in port; unknown GUIDs are not taken for one card.
TEST(NetDevices, PortsAndFunctionsOfOneCard_HaveNamesAndPortsOfTheirOwn) {
  NetDevices table({device("mlx5_0", 1, 7), device("mlx5_0", 2, 7), device("mlx5_1", 1, 8),
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

TEST(NetDevices, PointerSupport_FollowsTheRegistrationPaths) {
  DeviceFacts both = device("mlx5_0", 1, 1), address = device("mlx5_1", 1, 2);
  both.gdr = {true, true};
  address.gdr = {false, true};
  NetDevices table({both, address, device("mlx5_2", 1, 3)});
  EXPECT_EQ(properties_of(&table, 0).pointer_support,
            abi::kPtrHost | abi::kPtrCuda | abi::kPtrDmaBuf);
  EXPECT_EQ(properties_of(&table, 1).pointer_support, abi::kPtrHost | abi::kPtrCuda);
  EXPECT_EQ(properties_of(&table, 2).pointer_support, abi::kPtrHost);
}

TEST(NetDevices, Description_HasALineForEachDevice) {
  DeviceFacts first = device("mlx5_0", 1, 1), second = device("rxe0", 2, 2);
  first.pci_name = "0000:1a:00.0";
  first.numa_node = 1;
  first.rail = 3;
  first.speed_mbps = 400000;
  first.gdr_text = "dma-buf, peermem";
  second.ethernet = true;
  second.speed_mbps = 25000;
  second.gdr_text = "off: neither dma-buf nor peermem";
  EXPECT_THAT(NetDevices({first, second}).describe(),
              ElementsAre("[0] mlx5_0:1 InfiniBand 400 Gb/s pci 0000:1a:00.0 numa 1 rail 3 "
                          "GPUDirect dma-buf, peermem",
                          "[1] rxe0:2 RoCE 25 Gb/s pci none numa -1 rail -1 GPUDirect off: "
                          "neither dma-buf nor peermem"));
}

TEST(NetDevices, Ports_AreTheirOwnOnlyPart) {
  NetDevices devices(four_ports());
  EXPECT_EQ(devices.count(), 4);
  EXPECT_THAT(devices.parts(2), ElementsAre(2));
  EXPECT_EQ(properties_of(&devices, 2).part_count, 1);
  EXPECT_EQ(properties_of(&devices, 2).parts[0], 2);
  EXPECT_THAT(devices.parts(4), IsEmpty());
  EXPECT_THAT(devices.parts(-1), IsEmpty());
}

TEST(NetDevices, MergedDevice_FollowsThePortsAndNamesItsParts) {
  NetDevices devices(four_ports());
  EXPECT_EQ(merge(&devices, {0, 2}), 4);
  EXPECT_EQ(merge(&devices, {3, 1}), 5);
  EXPECT_EQ(devices.count(), 6);
  EXPECT_THAT(devices.parts(4), ElementsAre(0, 2));
  EXPECT_THAT(devices.parts(5), ElementsAre(3, 1));
  const DeviceProperties properties = properties_of(&devices, 4);
  EXPECT_STREQ(properties.name, "mlx5_0+mlx5_2");
  EXPECT_EQ(properties.part_count, 2);
  EXPECT_EQ(properties.parts[0], 0);
  EXPECT_EQ(properties.parts[1], 2);
  EXPECT_THAT(devices.describe(4), HasSubstr("[4] mlx5_0+mlx5_2 InfiniBand 800 Gb/s pci"));
  EXPECT_EQ(devices.describe().size(), 4u);
}

// Short names are stored inside their string, so that they would move with it.
TEST(NetDevices, StringsOfADevice_StayWhereTheyAreWhileOthersAreMerged) {
  NetDevices devices(four_ports());
  const DeviceProperties before = properties_of(&devices, 0);
  for (int one = 0; one < 4; ++one) {
    for (int other = 0; other < one; ++other) ASSERT_TRUE(merge(&devices, {one, other}));
  }
  EXPECT_EQ(before.name, properties_of(&devices, 0).name);
  EXPECT_EQ(before.pci_path, properties_of(&devices, 0).pci_path);
  EXPECT_STREQ(before.name, "mlx5_0");
}

TEST(NetDevices, SamePorts_AreTheSameDevice) {
  NetDevices devices(four_ports());
  EXPECT_EQ(merge(&devices, {0, 1}), 4);
  EXPECT_EQ(merge(&devices, {2, 3}), 5);
  EXPECT_EQ(merge(&devices, {1, 0}), 4);
  EXPECT_EQ(devices.count(), 6);
}

TEST(NetDevices, MergedDevice_HasTheSumOfTheSpeedsAndWhatAllPortsCanDo) {
  std::vector<DeviceFacts> ports = four_ports();
  ports[1].speed_mbps = 200000;
  ports[1].max_message_bytes = size_t{1} << 20;
  ports[1].gdr = {true, false};
  ports[1].gdr_text = "dma-buf";
  ports[1].data_direct = true;
  ports[2].gdr = {false, true};
  NetDevices devices(ports);
  ASSERT_EQ(merge(&devices, {0, 1}), 4);
  const DeviceProperties properties = properties_of(&devices, 4);
  EXPECT_EQ(properties.speed_mbps, 600000);
  EXPECT_EQ(properties.max_p2p_bytes, size_t{1} << 20);
  EXPECT_EQ(properties.pointer_support, abi::kPtrHost | abi::kPtrDmaBuf);
  EXPECT_TRUE(properties.force_flush);
  EXPECT_EQ(properties.guid, 0x100u);
  EXPECT_STREQ(properties.pci_path, "/sys/devices/pci0000:3a/0000:3b:00.0");
  EXPECT_THAT(devices.describe(4), HasSubstr("GPUDirect dma-buf"));
  ASSERT_EQ(merge(&devices, {1, 2}), 5);
  EXPECT_EQ(properties_of(&devices, 5).pointer_support, abi::kPtrHost);
  EXPECT_THAT(devices.describe(5), HasSubstr("GPUDirect off: no registration path that all"));
}

// NCCL compares the numbers of rails and planes, so that those of two are no number of one.
TEST(NetDevices, MergedDevice_HasARailAndAPlaneOnlyWhereItsPortsAgree) {
  std::vector<DeviceFacts> ports = four_ports();
  ports[1].rail = 0;
  for (int i : {0, 1, 2}) ports[i].plane = i == 2 ? 3 : 1;
  NetDevices devices(ports);
  ASSERT_EQ(merge(&devices, {0, 1}), 4);
  EXPECT_EQ(properties_of(&devices, 4).rail, 0);
  EXPECT_EQ(properties_of(&devices, 4).plane, 1);
  ASSERT_EQ(merge(&devices, {1, 2}), 5);
  EXPECT_EQ(properties_of(&devices, 5).rail, abi::kNetIdUndefined);
  EXPECT_EQ(properties_of(&devices, 5).plane, 1 << 14 | 1 << 2 | 1 << 4);
  ASSERT_EQ(merge(&devices, {2, 3}), 6);
  EXPECT_EQ(properties_of(&devices, 6).plane, 1 << 14 | 1 << 4 | 1 << 0);
}

TEST(NetDevices, PortsThatCannotBeMerged_AreRejectedOrDeclined) {
  std::vector<DeviceFacts> ports = four_ports();
  for (int i = 4; i < 10; ++i) ports.push_back(port_on_pci(i));
  ports[8].ethernet = true;
  ports[9].pci_path.clear();  // NCCL 2.27 and later lose a device that is merged of such
  NetDevices devices(ports);
  ASSERT_EQ(merge(&devices, {0, 1}), 10);
  NetDevices::MergeRules any, four, off;
  four.most = abi::kMaxMergedDevicesV9;
  off.allowed = false;
  struct Case {
    std::vector<int> ports;
    NetDevices::MergeRules rules;
    Code code;
    const char* text;
  };
  constexpr Code kBad = Code::kInvalidArgument, kDeclined = Code::kDeclined;
  for (const Case& one : {
           Case{{}, any, kBad, "no device is named"},
           Case{{0, -1}, any, kBad, "there is no device -1"},
           Case{{0, 11}, any, kBad, "there is no device 11; there are 10"},
           Case{{2, 10}, any, kBad, "device 10 is a merged one itself"},
           Case{{2, 2}, any, kBad, "device 2 is named twice"},
           Case{{0, 1, 2, 3, 4}, four, kBad, "5 devices are too many to merge: at most 4"},
           Case{{0, 1, 2, 3, 4, 5, 6, 7, 8}, any, kBad, "at most 8"},
           Case{{0, 8},
                any,
                kDeclined,
                "mlx5_0:1 (InfiniBand) and mlx5_8:1 (RoCE) cannot be merged"},
           Case{{0, 9}, any, kDeclined, "mlx5_9:1 is on no PCI function"},
           Case{{0, 1}, off, kDeclined, "NCCL_IB_MERGE_NICS=0"},
       }) {
    const Result<int> merged = devices.merge(one.ports, one.rules);
    ASSERT_FALSE(merged) << one.text;
    EXPECT_EQ(merged.error().code, one.code) << one.text;
    EXPECT_THAT(merged.error().text, HasSubstr(one.text));
  }
  EXPECT_EQ(devices.count(), 11);
  EXPECT_EQ(merge(&devices, {0, 1, 2, 3, 4, 5, 6, 7}), 11);
  EXPECT_EQ(properties_of(&devices, 11).part_count, 8);
  EXPECT_EQ(merge(&devices, {4, 5, 6, 7}, four), 12);
  EXPECT_TRUE(merge(&devices, {0}, off).has_value()) << "a single port";
}

// NCCL 2.24 to 2.26 merge every port, most of them with no other.
TEST(NetDevices, SinglePorts_CountOnlyBesideAMergedDevice) {
  NetDevices devices(four_ports());
  EXPECT_EQ(merge(&devices, {0}), 4);
  EXPECT_EQ(merge(&devices, {1}), 5);
  EXPECT_EQ(devices.count(), 4);
  EXPECT_EQ(merge(&devices, {2, 3}), 6);
  EXPECT_EQ(devices.count(), 7);
  EXPECT_THAT(devices.parts(5), ElementsAre(1));
  EXPECT_STREQ(properties_of(&devices, 5).name, "mlx5_1");
  EXPECT_EQ(properties_of(&devices, 5).part_count, 1);
  EXPECT_EQ(properties_of(&devices, 5).parts[0], 1);
}

// NCCL 2.24 and 2.25 take the failure for a success, 2.26 forgets the first port.
TEST(NetDevices, DeclinedPorts_AreKeptBesideAMergedDeviceWhereNcclLosesThem) {
  std::vector<DeviceFacts> ports = four_ports();
  ports[1].ethernet = true;
  NetDevices devices(ports);
  NetDevices::MergeRules rules;
  rules.keep_declined = true;
  EXPECT_FALSE(merge(&devices, {0, 1}, rules));
  EXPECT_EQ(devices.count(), 4);
  EXPECT_EQ(merge(&devices, {2, 3}, rules), 6);
  EXPECT_EQ(devices.count(), 7);
  EXPECT_THAT(devices.parts(4), ElementsAre(0));
  EXPECT_THAT(devices.parts(5), ElementsAre(1));
}

// NCCL counts the ports anew after it has loaded the plugin again, and up to 2.27 uses the numbers
// of before.
TEST(NetDevices, Restart_CountsThePortsAndLeavesNumbersValid) {
  NetDevices devices(four_ports());
  ASSERT_EQ(merge(&devices, {0, 1}), 4);
  ASSERT_EQ(merge(&devices, {2, 3}), 5);
  const char* const name = properties_of(&devices, 4).name;
  devices.restart();
  EXPECT_EQ(devices.count(), 4);
  EXPECT_THAT(devices.parts(5), ElementsAre(2, 3));
  EXPECT_EQ(merge(&devices, {2, 3}), 4);
  EXPECT_EQ(devices.count(), 5);
  EXPECT_THAT(devices.parts(4), ElementsAre(2, 3));
  EXPECT_EQ(merge(&devices, {0, 1}), 5);
  EXPECT_EQ(properties_of(&devices, 5).name, name);
}

}  // namespace
}  // namespace gdr::plugin
