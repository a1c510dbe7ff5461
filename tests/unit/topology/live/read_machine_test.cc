#include "topology/live/read_machine.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/sources/made_sysfs.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReadMachine : public MadeSysfs {
 protected:
  std::vector<std::string> warnings() const {
    std::vector<std::string> texts;
    for (const Finding& finding : findings_) {
      if (finding.severity == Severity::kWarning) texts.push_back(finding.text);
    }
    return texts;
  }
  // A GPU below a root port and a switch, if `below_switch`, else on the root bus.
  void gpu(const std::string& bdf, bool below_switch) {
    std::string above =
        below_switch ? "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/" : "pci0000:00/";
    std::filesystem::path function = device(above + bdf, "pci");
    write(function / "class", "0x030200\n");
    write(function / "vendor", "0x10de\n");
    write(function / "numa_node", "0\n");
    link("bus/pci/devices/" + bdf, function);
  }
  // A NIC on the root bus, or where `path` leads.
  void nic(const std::string& path) {
    std::filesystem::path function = device("pci0000:00/" + path, "pci");
    write(function / "class", "0x020700\n");
    hca("mlx5_0", function);
  }
  // Writes a topology file of these elements.
  std::string system(const std::string& elements) {
    std::string text = "<system version='1'>" + elements + "</system>";
    std::replace(text.begin(), text.end(), '\'', '"');
    write("topology.xml", text);
    return absolute("topology.xml");
  }
  // A file with these GPUs below a switch.
  std::string file(const std::string& gpus) {
    return system("<cpu numaid='0'><pci busid='ffff:ff:01.0' class='0x060400'>" + gpus +
                  "</pci></cpu>");
  }
  Machine read(const std::string& topology_file) {
    ReadOptions options;
    options.topology_file = topology_file;
    options.default_topology_file = absolute("default.xml");
    options.sysfs_root = root_;
    return read_machine(options, &findings_);
  }
  static int node_of(const Machine& machine, const Attachment& at) {
    return machine.numa_nodes.at(static_cast<size_t>(at.numa)).id;
  }

  Findings findings_;
};

std::string pci(const std::string& busid) {
  return "<pci busid='" + busid + "' class='0x030200' vendor='0x10de'/>";
}

TEST_F(ReadMachine, NoFile_TheMachineItselfIsRead) {
  gpu("0000:03:00.0", true);
  write("default.xml", "<system version='2'/>");
  Machine machine = read(kNoFile);
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.switches.size(), 1u);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(ReadMachine, File_DecidesWhereGpusAre) {
  gpu("0000:00:06.0", false);
  Machine machine = read(file(pci("0000:00:06.0")));
  ASSERT_EQ(machine.gpus.size(), 1u);
  ASSERT_EQ(machine.gpus[0].at.parent, 0);
  EXPECT_EQ(machine.switches[0].bdf.domain, 0xffffu);
}

TEST_F(ReadMachine, DefaultFile_IsReadWherePresent) {
  gpu("0000:00:06.0", false);
  std::filesystem::rename(file(pci("0000:00:06.0")), root_ / "default.xml");
  EXPECT_EQ(read("").switches.size(), 1u);
}

TEST_F(ReadMachine, GpusOfFileAndSysfs_ThoseThatArePresentCount) {
  gpu("0000:00:06.0", false);
  EXPECT_EQ(read(file(pci("0000:00:06.0") + pci("0000:00:07.0"))).gpus.size(), 1u);
  gpu("0000:03:00.0", true);
  Machine machine = read(file(pci("0000:00:06.0")));
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.switches.size(), 2u);
  EXPECT_NE(machine.gpus[0].at.parent, machine.gpus[1].at.parent);
  EXPECT_EQ(machine.switches[machine.gpus[1].at.parent].bdf.to_string(), "0000:01:00.0");
}

// NCCL looks a device up by the text of its address, so that /sys places it.
TEST_F(ReadMachine, DeviceInAnotherSpelling_IsNotFoundInTheFile) {
  gpu("0000:00:1b.0", false);
  for (const char* busid : {"0000:00:1B.0", "00000000:00:1b.0", "00:1b.0"}) {
    Machine machine = read(file(pci(busid)));
    ASSERT_EQ(machine.gpus.size(), 1u) << busid;
    EXPECT_EQ(machine.gpus[0].at.parent, -1) << busid;
    ASSERT_EQ(machine.findings.size(), 1u);
    EXPECT_THAT(machine.findings[0].text, HasSubstr("does not find 0000:00:1b.0"));
  }
  EXPECT_EQ(read(file(pci("0000:00:1b.0"))).gpus.at(0).at.parent, 0);
}

// As in the files of some clouds: NCCL finds a device by its address, and takes the file's node.
TEST_F(ReadMachine, DeviceWithoutClassInTheFile_IsWhereTheFileHasIt) {
  gpu("0000:00:06.0", false);
  nic("0000:00:09.0");
  Machine machine =
      read(system("<cpu numaid='0'/><cpu numaid='1'><pci busid='0000:00:06.0'/>"
                  "<pci busid='0000:00:09.0'/></cpu>"));
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(node_of(machine, machine.gpus[0].at), 1);
  EXPECT_EQ(machine.gpus[0].class_code, 0x030200u);
  EXPECT_EQ(machine.gpus[0].ids.vendor, 0x10de);
  ASSERT_EQ(machine.hcas.size(), 1u);
  EXPECT_EQ(node_of(machine, machine.hcas[0].at), 1);
}

TEST_F(ReadMachine, SpeedThatTheFileStates_IsKeptBesideThatOfTheLink) {
  nic("0000:00:09.0");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  write("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  Machine machine =
      read(system("<cpu numaid='0'><pci busid='0000:00:09.0' class='0x020700'><nic>"
                  "<net name='mlx5_0' speed='400000' port='1'/></nic></pci></cpu>"));
  ASSERT_EQ(machine.hcas.size(), 1u);
  EXPECT_EQ(machine.hcas[0].ports.at(0).speed_mbps, 400000);
  EXPECT_EQ(machine.hcas[0].ports.at(0).link_mbps, 100000);
}

// NCCL reads the links between Broadcom's switches from sysfs also where it has a file.
TEST_F(ReadMachine, SwitchOfTheFile_HasWhatSysfsKnowsOfIt) {
  gpu("0000:03:00.0", true);
  const std::string folder = "devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  write(folder + "/vendor", "0x1000\n");
  write(folder + "/max_link_speed", "32.0 GT/s PCIe\n");
  write(folder + "/max_link_width", "16\n");
  write("devices/pci0000:00/0000:00:01.0/max_link_width", "16\n");
  link("bus/pci/devices/0000:01:00.0", folder);
  for (const char* peer : {"0000:81:00.0", "0000:91:00.0"}) {
    link(std::string("bus/pci/devices/") + peer, device(std::string("pci0000:80/") + peer, "pci"));
    write(std::string("kernel/pci_switch_link/virtual_switch_links/0000:01:00.0/") + peer, "");
  }
  const std::string gpu_and_link = pci("0000:03:00.0") + "<pcilink target='0000:91:00.0'/>";
  const Machine machine =
      read(system("<cpu numaid='0'><pci busid='0000:01:00.0' class='0x060400'>" + gpu_and_link +
                  "</pci></cpu>"));
  ASSERT_EQ(machine.switches.size(), 1u);
  const Switch& one = machine.switches[0];
  EXPECT_THAT(one.peers,
              ElementsAre(Bdf::parse("0000:91:00.0").value(), Bdf::parse("0000:81:00.0").value()));
  EXPECT_EQ(one.ids.vendor, 0x1000);
  EXPECT_EQ(one.link, (PciLink{32, 16}));
}

// It reads nothing of a switch that has only NICs below which the file describes.
TEST_F(ReadMachine, SwitchAboveANicOfTheFileAlone_IsTakenAsItIs) {
  nic("0000:01:00.0/0000:02:00.0");
  write("devices/pci0000:00/0000:01:00.0/vendor", "0x1000\n");
  link("bus/pci/devices/0000:01:00.0", "devices/pci0000:00/0000:01:00.0");
  write("kernel/pci_switch_link/virtual_switch_links/0000:01:00.0/0000:01:00.0", "");
  const Machine machine = read(system(
      "<cpu numaid='0'><pci busid='0000:01:00.0' class='0x060400' vendor='0x1000'>"
      "<pci busid='0000:02:00.0' class='0x020700'><nic><net name='mlx5_0' port='1'/></nic></pci>"
      "</pci></cpu>"));
  ASSERT_EQ(machine.switches.size(), 1u);
  EXPECT_THAT(machine.switches[0].peers, IsEmpty());
}

// NCCL asks the processor for what the file lacks.
TEST_F(ReadMachine, CpuThatTheFileDoesNotName_IsThatOfTheMachine) {
  gpu("0000:00:06.0", false);
  write("../proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n");
  EXPECT_EQ(read(file(pci("0000:00:06.0"))).cpu, (Cpu{"x86_64", "GenuineIntel", 6, 143}));
  const std::string stated =
      system("<cpu numaid='0' arch='x86_64' vendor='AuthenticAMD' familyid='25' modelid='1'/>");
  EXPECT_EQ(read(stated).cpu, (Cpu{"x86_64", "AuthenticAMD", 25, 1}));
  EXPECT_EQ(read(system("<cpu numaid='0' arch='arm64'/>")).cpu, (Cpu{"arm64", "", 0, 0}));
}

TEST_F(ReadMachine, FileOfSeveralHosts_IsWarnedAbout) {
  EXPECT_EQ(read(system("<cpu numaid='0' host_hash='0x1'/><cpu numaid='0' host_hash='0x2'/>")).host,
            "0x1");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("the first of 2 hosts")));
}

TEST_F(ReadMachine, NoGpuInSysfs_TheFileIsTakenAsItIs) {
  EXPECT_EQ(read(file(pci("0000:00:06.0"))).gpus.size(), 1u);
}

TEST_F(ReadMachine, BadOrMissingFile_IsWarnedAboutAndTheMachineItselfIsRead) {
  gpu("0000:03:00.0", true);
  write("bad.xml", "<system");
  EXPECT_EQ(read(absolute("bad.xml")).gpus.size(), 1u);
  EXPECT_EQ(read("/missing.xml").gpus.size(), 1u);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("bad.xml"), HasSubstr("/missing.xml")));
}

}  // namespace
}  // namespace gdr::topology
