#include "topology/sources/nccl_xml_writer.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machine_checks.h"
#include "tests/unit/topology/machines.h"
#include "tools/sources/hwloc_xml.h"
#include "topology/grouping.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Machine sorted(Machine machine) {
  sort(&machine);
  return machine;
}

// NCCL's files do not have host bridges.
Attachment without_host_bridge(Attachment at) {
  at.host_bridge = -1;
  at.order = -1;
  return at;
}

Machine read_back(const Machine& machine) {
  Result<Machine> read = nccl_xml_text(nccl_xml_text_of(machine));
  EXPECT_TRUE(read.has_value()) << read.error().text;
  return sorted(std::move(read).value());
}

const Hca* hca_at(const Machine& machine, const Bdf& bdf) {
  for (const Hca& hca : machine.hcas) {
    if (hca.bdf == bdf) return &hca;
  }
  return nullptr;
}

class NcclXmlRoundTrip : public ::testing::TestWithParam<Machine> {};

TEST_P(NcclXmlRoundTrip, Text_ReadBackIsTheSameMachine) {
  Machine machine = sorted(GetParam());
  Machine back = read_back(machine);
  ASSERT_EQ(back.switches.size(), machine.switches.size());
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    const Switch& one = machine.switches[i];
    EXPECT_EQ(back.switches[i].bdf, one.bdf);
    EXPECT_EQ(without_host_bridge(back.switches[i].at), without_host_bridge(one.at));
    EXPECT_EQ(back.switches[i].ids, one.ids);
    EXPECT_EQ(back.switches[i].link, one.link);
  }
  ASSERT_EQ(back.gpus.size(), machine.gpus.size());
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    EXPECT_EQ(back.gpus[i].bdf, machine.gpus[i].bdf);
    EXPECT_EQ(without_host_bridge(back.gpus[i].at), without_host_bridge(machine.gpus[i].at));
    EXPECT_EQ(back.gpus[i].link, machine.gpus[i].link);
  }
  for (const Hca& hca : machine.hcas) {
    const Hca* found = hca_at(back, *hca.bdf);
    ASSERT_NE(found, nullptr) << hca.name;
    EXPECT_EQ(without_host_bridge(found->at), without_host_bridge(hca.at)) << hca.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, NcclXmlRoundTrip,
                         ::testing::Values(two_sockets_with_switches(), flat(4, 4), lopsided()));

// NCCL fails on an attribute that is longer than its buffer, and finds a long mask itself.
TEST(NcclXmlWriter, Cpu_HasItsKnownValuesButNoLongMask) {
  Machine machine = two_sockets();
  for (int i = 0; i < 40; ++i) machine.numa_nodes[0].cpus += ",ffffffff";
  const std::string text = nccl_xml_text_of(machine);
  EXPECT_THAT(text, HasSubstr("<cpu numaid=\"0\" arch="));
  EXPECT_THAT(text, HasSubstr("<cpu numaid=\"1\" affinity=\"0000ffff,ffff0000\" arch=\"x86_64\" "
                              "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\" />"));
  EXPECT_THAT(nccl_xml_text_of(flat(0, 0)), HasSubstr("<cpu numaid=\"0\" />"));
}

// NCCL reads from the system what the file lacks, and takes "" and 0 for a slow link.
TEST(NcclXmlWriter, PciNode_HasNcclsAttributesAndNoUnknownOnes) {
  Machine machine = flat(1, 0);
  EXPECT_THAT(nccl_xml_text_of(machine),
              HasSubstr("<pci busid=\"0000:10:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
                        "device=\"0x2330\" subsystem_vendor=\"0x10de\" subsystem_device=\"0x16c1\" "
                        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\" />"));
  machine.gpus[0].link = PciLink{2.5, 8};
  EXPECT_THAT(nccl_xml_text_of(machine), HasSubstr("link_speed=\"2.5 GT/s PCIe\""));
  machine.gpus[0].link = {};
  machine.gpus[0].ids = {};
  machine.gpus[0].class_code = 0;
  EXPECT_THAT(nccl_xml_text_of(machine), HasSubstr("<pci busid=\"0000:10:00.0\" />"));
}

TEST(NcclXmlWriter, MachineOfAnHwlocFile_HasNoEmptyAttribute) {
  Machine machine = checked(hwloc_xml(GDR_TOPOLOGIES "/hwloc-dgx-h100.xml"));
  std::string text = nccl_xml_text_of(machine);
  EXPECT_THAT(text, Not(HasSubstr("=\"\"")));
  EXPECT_THAT(text, Not(HasSubstr("link_width")));
  EXPECT_THAT(text, HasSubstr("vendor=\"0x10de\""));
}

TEST(NcclXmlWriter, MadeUpSwitchOfUnknownLink_LimitsNothing) {
  Machine machine = flat(1, 0);
  Attachment at = machine.gpus[0].at;
  machine.gpus[0].at.parent = add_switch(&machine, Bdf{0xffff, 0xff, 1, 0}, at);
  machine.switches[0].ids = {};
  machine.switches[0].link = {};
  EXPECT_THAT(nccl_xml_text_of(machine),
              HasSubstr("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" "
                        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"));
}

TEST(NcclXmlWriter, LinkedSwitches_StayLinked) {
  Machine machine = checked(nccl_xml(GDR_TOPOLOGIES "/cases/pcilink.xml"));
  Machine back = read_back(machine);
  ASSERT_EQ(back.switches.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(back.switches[i].peers, machine.switches[i].peers);
}

TEST(NcclXmlWriter, Devices_AreInTheOrderOfTheirFile) {
  Machine machine = checked(nccl_xml_text(
      "<system><cpu numaid='1'><pci busid='0000:09:00.0' class='0x020700'/>"
      "<pci busid='0000:05:00.0' class='0x030200'/><pci busid='0000:07:00.0' class='0x060400'>"
      "<pci busid='0000:08:00.0' class='0x030200'/></pci></cpu><cpu numaid='0'/></system>"));
  std::string text = nccl_xml_text_of(machine);
  size_t at = 0;
  for (const char* next :
       {"numaid=\"1\"", "0000:09:", "0000:05:", "0000:07:", "0000:08:", "numaid=\"0\""}) {
    size_t found = text.find(next);
    EXPECT_GE(found, at) << next << " in " << text;
    at = found;
  }
  EXPECT_NE(at, std::string::npos);
}

TEST(NcclXmlWriter, DevicesOfNoFile_AreInTheOrderOfAddresses) {
  std::string text = nccl_xml_text_of(sorted(lopsided()));
  // The switch that is below the other one comes before the HCA with a greater address.
  EXPECT_LT(text.find("0000:13:00.0"), text.find("0000:16:00.0"));
}

TEST(NcclXmlWriter, FunctionsOfDevices_AreOneNodeEach) {
  Machine machine = flat(0, 4);
  machine.hcas[1].bdf = machine.hcas[0].bdf;
  machine.hcas[2].bdf = bdf_of(0x40, 0, 1);
  machine.hcas[3].bdf.reset();
  const std::string text = nccl_xml_text_of(machine);
  const size_t first = text.find("0000:40:00.0"), second = text.find("0000:40:00.1");
  EXPECT_EQ(first, text.rfind("0000:40:00.0"));
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(second, std::string::npos);
  EXPECT_EQ(text.find("<pci ", second), std::string::npos) << "none of an HCA without a function";
  const std::string parts =
      nccl_xml_text_of(checked(nccl_xml(GDR_TOPOLOGIES "/cases/mlopart.xml")));
  EXPECT_EQ(parts.find("0008:06:00.0"), parts.rfind("0008:06:00.0"));
}

TEST(NcclXmlWriter, NoNumaNodes_DevicesAreOnOneCpu) {
  Machine machine = flat(1, 1);
  machine.numa_nodes.clear();
  machine.gpus[0].at = machine.hcas[0].at = Attachment{};
  std::string text = nccl_xml_text_of(machine);
  EXPECT_THAT(text, HasSubstr("<cpu numaid=\"-1\">"));
  EXPECT_THAT(text, HasSubstr("0000:10:00.0"));
}

TEST(NcclXmlWriter, GroupedMachine_ReadBackHasTheGroups) {
  RailDecision scene = scene_of(flat(4, 4));
  Machine back = read_back(group_under_switches(scene.machine, scene.plan));
  EXPECT_EQ(back.switches.size(), 4u);
  EXPECT_EQ(back.switches[2].bdf.to_string(), "ffff:ff:03.0");
}

}  // namespace
}  // namespace gdr::topology
