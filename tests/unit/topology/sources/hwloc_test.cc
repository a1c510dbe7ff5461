#include "topology/sources/hwloc.h"

#include <gmock/gmock.h>

#include <cstdlib>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "tests/unit/topology/machine_checks.h"
#include "tools/sources/hwloc_xml.h"
#include "topology/sources/sysfs.h"

namespace gdr::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Machine read_hwloc(const std::string& file) { return checked(hwloc_xml(file)); }

class HwlocText : public ::testing::Test {
 protected:
  Result<Machine> parse(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    return hwloc_xml(file_);
  }

  const TempFolder folder_;
  const std::string file_ = (folder_.path() / "hwloc.xml").string();
};

// Which HCAs are on whose switch is in golden_test.cc.
TEST(Hwloc, Xml_EachFile_HasItsDevices) {
  for (const FileFacts& facts : {
           FileFacts{
               "hwloc-dgx-h100.xml", {8, 12, 8, 2}, "0 0 0 0 1 1 1 1", "0 0 0 0 0 0 1 1 1 1 1 1"},
           FileFacts{"hwloc-dual-port-cards.xml", {4, 4, 2, 2}, "0 0 1 1", "0 0 1 1"},
           FileFacts{"hwloc-flat-vm.xml", {2, 2, 0, 1}, "0 0", "0 0"},
           FileFacts{"hwloc-one-gpu.xml", {1, 2, 0, 2}, "1", "1 1"},
           FileFacts{"hwloc-two-socket-plain.xml", {2, 2, 0, 2}, "0 1", "0 1"},
           FileFacts{"hwloc-version-1.xml", {2, 2, 2, 2}, "0 1", "0 1"},
           // Without the nodes of its high-bandwidth memory.
           FileFacts{"hwloc-xeon-max-flat.xml", {2, 2, 0, 2}, "0 1", "0 1"},
       }) {
    expect_facts(read_hwloc(kTopologies + "/" + facts.file), facts);
  }
}

TEST(Hwloc, Xml_PortsOfCards_AreReadWithTheirGuid) {
  Machine cards = read_hwloc(kTopologies + "/hwloc-dual-port-cards.xml");
  EXPECT_EQ(cards.hcas[0].guid, cards.hcas[1].guid);
  EXPECT_NE(cards.hcas[0].guid, cards.hcas[2].guid);
  Machine machine = read_hwloc(kTopologies + "/hwloc-flat-vm.xml");
  EXPECT_EQ(machine.gpus[0].model, "NVIDIA A10G");
  ASSERT_EQ(machine.hcas[1].ports.size(), 2u);
  EXPECT_EQ(machine.hcas[1].ports[1].number, 2);
  EXPECT_EQ(machine.hcas[1].ports[1].state, Port::State::kDown);
}

TEST(Hwloc, Xml_NodesOfDram_HaveMasksAndDistances) {
  EXPECT_EQ(read_hwloc(kTopologies + "/hwloc-one-gpu.xml").numa_nodes[1].cpus,
            "00000001,00000000,00000001,00000000");
  Machine machine = read_hwloc(kTopologies + "/hwloc-xeon-max-flat.xml");
  EXPECT_EQ(machine.numa_nodes[0].distances, (std::map<int, int>{{0, 10}, {1, 21}}));
  EXPECT_EQ(machine.numa_nodes[1].distances, (std::map<int, int>{{0, 21}, {1, 10}}));
}

TEST(Hwloc, Xml_DgxH100_HasTheValuesOfTheFile) {
  Machine machine = read_hwloc(kTopologies + "/hwloc-dgx-h100.xml");
  EXPECT_EQ(machine.source, "hwloc XML " + kTopologies + "/hwloc-dgx-h100.xml");
  EXPECT_EQ(machine.cpu, (Cpu{"x86_64", "GenuineIntel", 6, 143}));
  EXPECT_EQ(machine.packages, (std::vector<Package>{{0}, {1}}));
  EXPECT_EQ(machine.numa_nodes[1], (NumaNode{1, 1, "0000ff00"}));
  const Gpu& gpu = machine.gpus[0];
  EXPECT_EQ(gpu.bdf.to_string(), "0000:1b:00.0");
  EXPECT_EQ(gpu.class_code, 0x030200u);
  EXPECT_EQ(gpu.ids, (PciIds{0x10de, 0x2330, 0x10de, 0x2330}));
  EXPECT_EQ(gpu.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.nvlinks, (std::vector<NvLink>{{NvLink::To::kSwitch, std::nullopt, 0}}));
  EXPECT_EQ(machine.host_bridges[gpu.at.host_bridge], (HostBridge{0, 0x15}));
  EXPECT_EQ(switch_above(machine, gpu.at), "0000:16:00.0");
  const Hca& down = hca_named(machine, "mlx5_2");
  EXPECT_EQ(down.bdf->to_string(), "0000:29:00.1");
  EXPECT_EQ(down.guid, 0x0200000000002900u);
  EXPECT_EQ(down.guid, hca_named(machine, "mlx5_1").guid);
  EXPECT_EQ(down.ports.at(0).state, Port::State::kDown);
  EXPECT_EQ(hca_named(machine, "mlx5_1").ports.at(0).state, Port::State::kActive);
}

TEST(Hwloc, Xml_OtherVendorSelected_FindsNoGpus) {
  Machine machine = checked(hwloc_xml(kTopologies + "/hwloc-flat-vm.xml", Selection{{0x1002}}));
  EXPECT_TRUE(machine.gpus.empty());
}

// hwloc has NVLinks only where its NVML component took part.
TEST_F(HwlocText, Xml_NvLinks_AreKnownByTheMatrixOrByNvSwitches) {
  EXPECT_TRUE(read_hwloc(kTopologies + "/hwloc-dgx-h100.xml").gpu_links_known);
  EXPECT_FALSE(read_hwloc(kTopologies + "/hwloc-version-1.xml").gpu_links_known);
  EXPECT_FALSE(read_hwloc(kTopologies + "/hwloc-flat-vm.xml").gpu_links_known);
  std::string text = read_whole(kTopologies + "/hwloc-dgx-h100.xml");
  size_t from = text.find("<distances2hetero"), end = text.find("</topology>");
  text.erase(from, end - from);
  Machine machine = checked(parse(text));
  EXPECT_TRUE(machine.gpu_links_known);
  for (const Gpu& gpu : machine.gpus) {
    EXPECT_EQ(gpu.nvlinks, (std::vector<NvLink>{{NvLink::To::kSwitch, std::nullopt, 0}}));
  }
  // Which GPU is not on the NVSwitches is unknown where one is of another kind.
  size_t id = text.find("10de:2330");
  text.replace(id, 9, "10de:2331");
  machine = checked(parse(text));
  EXPECT_FALSE(machine.gpu_links_known);
  EXPECT_TRUE(machine.gpus[0].nvlinks.empty());
}

TEST_F(HwlocText, Xml_Comments_HideNoDevices) {
  std::string text = read_whole(kTopologies + "/hwloc-dgx-h100.xml");
  for (size_t at = text.find("<object type=\"Bridge\""); at != std::string::npos;
       at = text.find("<object type=\"Bridge\"", at)) {
    const std::string comment = "<!-- a bridge -->\n";
    text.insert(at, comment);
    at += comment.size() + 1;
  }
  Machine machine = checked(parse(text));
  EXPECT_EQ(counts_of(machine), (Counts{8, 12, 8, 2}));
}

TEST_F(HwlocText, Xml_FilesOfOtherKinds_AreErrors) {
  EXPECT_THAT(error_of(hwloc_xml("/nonexistent")),
              HasSubstr("/nonexistent cannot be read: No such file"));
  EXPECT_THAT(error_of(hwloc_xml(kTopologies + "/README.md")), HasSubstr("not XML"));
  EXPECT_THAT(error_of(hwloc_xml(kTopologies + "/nccl-hgx-4nic.xml")),
              HasSubstr("is a NCCL topology file"));
  EXPECT_THAT(error_of(parse("<topology version=\"3.0\"/>")),
              AllOf(HasSubstr(":1: is of hwloc version \"3.0\""),
                    HasSubstr("lstopo --export-xml-flags v2")));
  EXPECT_THAT(error_of(parse("<topology version=\"x\"/>")), HasSubstr("lstopo of hwloc 1 or 2"));
  EXPECT_THAT(error_of(parse("<topology version=\"2.0\"></topology>")), HasSubstr(file_));
}

TEST_F(HwlocText, Xml_FilesThatHwlocCrashesOn_AreErrors) {
  const std::string text = read_whole(kTopologies + "/hwloc-flat-vm.xml");
  struct Change {
    const char* from;
    const char* to;
    const char* error;
  };
  for (const Change& change : {
           Change{" complete_cpuset=\"0x00000001\"", "",
                  ":4: <object> of type Machine has no valid"},
           Change{"\"NUMANode\"", "\"Group\"", "there is no NUMA node"},
           Change{"object type=\"Package\"", "object", ":7: <object> has no type"},
           Change{"bridge_type=\"0-1\"", "bridge_type=\"8-1\"",
                  "of a kind that hwloc 2 does not know"},
           Change{"osdev_type=\"3\"", "osdev_type=\"33\"", "of a kind that hwloc 2 does not know"},
           Change{" nodeset=", " Nodeset=", "has an attribute that hwloc does not know"},
           Change{"nodeset=\"0x00000001\"", "nodeset=\"-1\"", "has no valid nodeset"},
           Change{"bridge_pci=\"0000:[", "bridge_pci=\"0000:", "which is not a range of PCI buses"},
           Change{"pci_busid=\"0000:00:05.0\"", "pci_busid=\"0000:00:0x.0\"",
                  "has pci_busid \"0000:00:0x.0\", which is not a PCI address"},
       }) {
    std::string changed = text;
    changed.replace(changed.find(change.from), std::string(change.from).size(), change.to);
    EXPECT_THAT(error_of(parse(changed)), HasSubstr(change.error));
  }
}

// Without these, libhwloc 2.9.0 crashes while it imports a file of hwloc 1.
TEST_F(HwlocText, Xml_FilesOfHwloc1ThatHwlocCrashesOn_AreErrors) {
  const std::string text = read_whole(kTopologies + "/hwloc-version-1.xml");
  for (const char* set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
    std::string changed = text, attribute = std::string(" ") + set + "=";
    changed.replace(changed.find(attribute, changed.find("\"NUMANode\"")), attribute.size(),
                    " subtype=");
    EXPECT_THAT(error_of(parse(changed)), HasSubstr(std::string("NUMANode has no valid ") + set));
  }
}

// hwloc 1 wrote neither nodes nor their sets for a machine with one node.
TEST_F(HwlocText, Xml_FileOfHwloc1WithoutNodes_HasOneNode) {
  const std::string sets =
      " cpuset='0x3' complete_cpuset='0x3' online_cpuset='0x3' allowed_cpuset='0x3'";
  Machine machine =
      checked(parse("<topology><object type='Machine' os_index='0'" + sets +
                    "><object type='PU' os_index='0' cpuset='0x1' complete_cpuset='0x1'/>"
                    "<object type='PU' os_index='1' cpuset='0x2' complete_cpuset='0x2'/>"
                    "</object></topology>"));
  EXPECT_EQ(machine.numa_nodes.size(), 1u);
}

TEST_F(HwlocText, Xml_DamagedFiles_GiveAnErrorOrAMachine) {
#ifdef __SANITIZE_ADDRESS__
  // libhwloc 2.9.0 leaks what it has read of a file that it then rejects.
  __lsan::ScopedDisabler no_leaks;
#endif
  for (const char* name : {"/hwloc-flat-vm.xml", "/hwloc-dgx-h100.xml", "/hwloc-version-1.xml"}) {
    expect_damage_survived(read_whole(kTopologies + name), 150,
                           [this](const std::string& text) { return parse(text); });
  }
}

TEST(Hwloc, Live_ThisMachine_EqualsSysfs) {
  auto live = hwloc_live();
  auto sysfs = sysfs_machine();
  ASSERT_TRUE(live.has_value()) << live.error().text;
  ASSERT_TRUE(sysfs.has_value()) << sysfs.error().text;
  EXPECT_EQ(live->source.substr(0, 8), "hwloc 2.");
  expect_consistent(*live);
  EXPECT_EQ(counts_of(*live), counts_of(*sysfs));
  EXPECT_EQ(live->packages, sysfs->packages);
  EXPECT_EQ(live->cpu, sysfs->cpu);
  EXPECT_EQ(live->switches, sysfs->switches);
  EXPECT_EQ(live->hcas, sysfs->hcas);
}

TEST(Hwloc, Live_XmlFileInTheEnvironment_IsAnError) {
  setenv("HWLOC_XMLFILE", (kTopologies + "/hwloc-flat-vm.xml").c_str(), 1);
  EXPECT_THAT(error_of(hwloc_live()), HasSubstr("HWLOC_XMLFILE is set"));
  unsetenv("HWLOC_XMLFILE");
}

}  // namespace
}  // namespace gdr::topology
