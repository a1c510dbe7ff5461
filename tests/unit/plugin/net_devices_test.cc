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
