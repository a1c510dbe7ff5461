#include "topology/sources/nccl_xml.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machine_checks.h"

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;

Machine read_nccl(const std::string& file) { return checked(nccl_xml(file)); }

// `inside` the only <cpu>.
Result<Machine> in_cpu(const std::string& inside) {
  return nccl_xml_text("<system version=\"1\">\n<cpu numaid=\"0\">\n" + inside + "</cpu></system>");
}

// Which HCAs are on whose switch is in golden_test.cc.
TEST(NcclXml, Read_EachFile_HasItsDevices) {
  for (const FileFacts& facts : {
           FileFacts{"nccl-amd-4gpu.xml", {4, 4, 12, 2}, "0 0 1 1", "0 0 1 1"},
           // By class, as the files of Azure and of the cloud name no device.
           FileFacts{"nccl-azure-ndv4.xml", {8, 8, 4, 4}, "1 1 0 0 3 3 2 2", "1 1 0 0 3 3 2 2"},
           FileFacts{"nccl-azure-ndv5.xml", {8, 8, 8, 2}, "0 0 0 0 1 1 1 1", "0 0 0 0 1 1 1 1"},
           FileFacts{"nccl-cloud-4nic.xml", {8, 4, 4, 2}, "0 0 0 0 1 1 1 1", "0 0 1 1"},
           FileFacts{"nccl-dgx-a100.xml", {8, 10, 12, 6}, "3 3 1 1 7 7 5 5", "3 3 1 1 0 7 7 5 5 4"},
           FileFacts{"nccl-gb200-tray.xml", {4, 4, 0, 2}, "0 0 1 1", "0 0 1 1"},
           FileFacts{"nccl-hgx-4nic.xml", {8, 4, 4, 2}, "0 0 0 0 1 1 1 1", "0 0 1 1"},
       }) {
    expect_facts(read_nccl(kTopologies + "/" + facts.file), facts);
  }
}

TEST(NcclXml, Read_NamesOfDevices_AreTheirAddressesWhereTheFileHasNone) {
  Machine machine = read_nccl(kTopologies + "/nccl-azure-ndv5.xml");
  EXPECT_EQ(machine.gpus[5].bdf.to_string(), "000a:00:00.0");
  EXPECT_EQ(machine.hcas[0].name, "0201:00:00.0");
  EXPECT_FALSE(machine.hcas[0].named);
}

TEST(NcclXml, Read_LinksOfGpus_AreC2cNvlinkOrXgmi) {
  Machine gb200 = read_nccl(kTopologies + "/nccl-gb200-tray.xml");
  EXPECT_EQ(gb200.cpu.arch, "arm64");
  EXPECT_EQ(gb200.gpus[0].c2c_links, 5);
  EXPECT_EQ(gb200.gpus[0].nvlinks.at(0).to, NvLink::To::kSwitch);
  Machine amd = read_nccl(kTopologies + "/nccl-amd-4gpu.xml");
  EXPECT_EQ(amd.gpus[0].compute_capability, 0);
  ASSERT_EQ(amd.gpus[0].nvlinks.size(), 3u);
  EXPECT_EQ(amd.gpus[0].nvlinks[0].gpu, amd.gpus[1].bdf);
}

TEST(NcclXml, Read_DgxA100_HasTheValuesOfTheElements) {
  Machine machine = read_nccl(kTopologies + "/nccl-dgx-a100.xml");
  EXPECT_EQ(machine.cpu, (Cpu{"x86_64", "AuthenticAMD", 23, 49}));
  EXPECT_EQ(machine.numa_nodes[0].cpus, "00000000,00000000,00000000,0000ffff");
  EXPECT_EQ(machine.numa_nodes[0].package, -1);
  const Gpu& gpu = machine.gpus[0];
  EXPECT_EQ(gpu.bdf.to_string(), "0000:05:00.0");
  EXPECT_EQ(gpu.class_code, 0x030200u);
  EXPECT_EQ(gpu.ids, (PciIds{0x10de, 0x20b0, 0x10de, 0x134f}));
  EXPECT_EQ(gpu.link, (PciLink{16, 16}));
  EXPECT_EQ(gpu.compute_capability, 80);
  EXPECT_EQ(gpu.gpudirect, true);
  EXPECT_EQ(gpu.nvlinks, (std::vector<NvLink>{{NvLink::To::kSwitch, std::nullopt, 12}}));
  const Hca& nic = hca_named(machine, "mlx5_2");
  EXPECT_EQ(nic.guid, 0x4b00000000000002u);
  ASSERT_EQ(nic.ports.size(), 1u);
  EXPECT_EQ(nic.ports[0], (Port{1, Port::State::kUnknown, 200000, Port::LinkLayer::kUnknown,
                                nic.ports[0].dev, nic.ports[0].order}));
}

TEST(NcclXml, Read_TwoCpusOfOneNode_AreOne) {
  Machine machine = checked(nccl_xml_text(
      "<system><cpu numaid='1'><pci busid='0000:01:00.0' class='0x030200'/></cpu>"
      "<cpu numaid='1' affinity='ff'><pci busid='0000:02:00.0' class='0x020700'/></cpu></system>"));
  EXPECT_EQ(counts_of(machine), (Counts{1, 1, 0, 1}));
  EXPECT_EQ(machine.numa_nodes[0].cpus, "ff");
  EXPECT_THAT(machine.findings.at(0).text, HasSubstr("a second <cpu> with numaid 1 is another"));
}

TEST(NcclXml, Read_NetsOfOneName_ArePortsOfOneHca) {
  Machine machine = checked(
      in_cpu("<pci busid='0000:01:00.0' class='0x020700'><nic>"
             "<net name='mlx4_0' port='2' speed='-1'/><net name='mlx4_0' port='1' speed='56000'/>"
             "</nic></pci>"));
  ASSERT_EQ(machine.hcas.size(), 1u);
  ASSERT_EQ(machine.hcas[0].ports.size(), 2u);
  EXPECT_EQ(machine.hcas[0].ports[0].speed_mbps, 56000);
  EXPECT_EQ(machine.hcas[0].ports[1].number, 2);
  EXPECT_EQ(machine.hcas[0].ports[1].speed_mbps, 0);
}

TEST(NcclXml, Read_NicWithoutFunction_IsOnTheNodeOfItsCpu) {
  Machine machine =
      checked(nccl_xml_text("<system><cpu numaid='-1'/><cpu numaid='2'><nic><net name='rxe0' "
                            "port='1'/></nic></cpu></system>"));
  EXPECT_FALSE(machine.hcas.at(0).bdf.has_value());
  EXPECT_EQ(numa_id(machine, machine.hcas[0].at), 2);
  EXPECT_EQ(machine.numa_nodes[0].id, -1);
}

TEST(NcclXml, Read_NvLinks_HaveTheTargetOfTheirClass) {
  Machine machine = checked(
      in_cpu("<pci busid='0000:01:00.0' class='0x030200'><gpu sm='90'>"
             "<nvlink target='0000:02:00.0' count='4' tclass='0x030200'/>"
             "<nvlink target='0000:03:00.0' count='2' tclass='0x068001'/>"
             "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/></gpu></pci>"));
  EXPECT_EQ(machine.gpus.at(0).nvlinks,
            (std::vector<NvLink>{{NvLink::To::kGpu, Bdf{0, 2, 0, 0}, 4},
                                 {NvLink::To::kCpu, std::nullopt, 2},
                                 {NvLink::To::kSwitch, std::nullopt, 18}}));
  EXPECT_FALSE(machine.gpus[0].gpudirect.has_value());
}

// A GPU's class without an element is ignored where others have elements, as by NCCL, and so is the
// server's own VGA.
TEST(NcclXml, Read_ClassesOfFunctions_DecideWhatTheyAre) {
  const std::pair<const char*, Counts> cases[] = {
      {"<pci busid='0000:01:00.0' class='0x030200'><gpu sm='90'/></pci>"
       "<pci busid='0000:02:00.0' class='0x030200'/><pci busid='0000:03:00.0' class='0x020000'/>",
       {1, 1, 0, 1}},
      {"<pci busid='0000:01:00.0' class='0x060400'/>", {0, 0, 1, 1}},
      {"<pci busid='0000:01:00.0' class='0x030000' vendor='0x1a03'/>", {0, 0, 0, 1}},
      // Several ranks may use one GPU.
      {"<pci busid='01:00.0'><gpu rank='0'/><gpu rank='1' mlopart='-1'/></pci>", {1, 0, 0, 1}}};
  for (const auto& [inside, counts] : cases) {
    EXPECT_EQ(counts_of(checked(in_cpu(inside))), counts) << inside;
  }
}

// A virtual machine does not see its NVSwitches, and NCCL then takes the target for one.
// NCCL asks NVML where a <gpu> has no link, and wrote all links where the file has a host_hash.
TEST(NcclXml, Read_GpusWithoutLinks_HaveNoneOnlyInAFileThatStatesLinks) {
  const std::string gpu = "<pci busid='0000:01:00.0' class='0x030200'><gpu sm='90'/></pci>";
  const std::string other = "<pci busid='0000:02:00.0'><gpu sm='90'>" +
                            std::string("<nvlink target='0000:03:00.0' tclass='0x030200'/>") +
                            "</gpu></pci>";
  EXPECT_FALSE(checked(in_cpu(gpu)).gpu_links_known);
  EXPECT_TRUE(checked(in_cpu(gpu + other)).gpu_links_known);
  EXPECT_TRUE(
      checked(nccl_xml_text("<system><cpu numaid='0' host_hash='0x1'>" + gpu + "</cpu></system>"))
          .gpu_links_known);
  EXPECT_FALSE(checked(in_cpu("<pci busid='0000:01:00.0' class='0x030200'/>")).gpu_links_known);
}

TEST(NcclXml, Read_NvLinkWithoutClass_LeadsToAGpuOfTheFileOrToASwitch) {
  Machine machine = checked(in_cpu(
      "<pci busid='0000:01:00.0' class='0x030200'><gpu sm='70'><nvlink target='0000:02:00.0'/>"
      "<nvlink target='fffffff:ffff:ff' count='6'/><nvlink target='0000:03:00.0'/></gpu></pci>"
      "<pci busid='0000:02:00.0' class='0x030200'><gpu sm='70'/></pci>"));
  EXPECT_EQ(machine.gpus.at(0).nvlinks,
            (std::vector<NvLink>{{NvLink::To::kGpu, Bdf{0, 2, 0, 0}, 1},
                                 {NvLink::To::kSwitch, std::nullopt, 7}}));
}

// NCCL breaks ties by this order, so it must be each device's own and not that of its switch.
TEST(NcclXml, Read_Devices_HaveTheirPositionInTheFile) {
  Machine machine = checked(nccl_xml_text(
      "<system><cpu numaid='1'><pci busid='09:00.0' class='0x060400'>"
      "<pci busid='0b:00.0'><gpu sm='90' dev='7'/></pci>"
      "<pci busid='0a:00.0'><gpu sm='90' dev='3'/></pci>"
      "<pci busid='08:00.0'><nic><net name='b' dev='4'/><net name='a'/></nic></pci></pci></cpu>"
      "<cpu numaid='0'/></system>"));
  EXPECT_EQ(machine.numa_nodes.at(1).order, 0);
  EXPECT_EQ(machine.switches.at(0).at.order, 1);
  EXPECT_EQ(machine.gpus.at(1).at.order, 2);
  EXPECT_EQ(machine.gpus.at(0).at.order, 3);
  EXPECT_EQ(hca_named(machine, "b").at.order, 4);
  EXPECT_EQ(hca_named(machine, "a").at.order, 5);
  EXPECT_EQ(machine.numa_nodes.at(0).order, 6);
  EXPECT_EQ(machine.gpus.at(0).dev, 3);
  EXPECT_EQ(hca_named(machine, "b").ports.at(0).dev, 4);
  EXPECT_EQ(hca_named(machine, "a").ports.at(0).dev, -1);
}

TEST(NcclXml, Read_Gb10_HasNoGpuDirectWhereTheFileDeniesIt) {
  Machine machine = read_nccl(kTopologies + "/cases/gb10b.xml");
  EXPECT_EQ(machine.source, "NCCL XML " + kTopologies + "/cases/gb10b.xml");
  EXPECT_EQ(machine.hosts, 1);
  ASSERT_EQ(machine.hcas.size(), 2u);
  for (const Hca& hca : machine.hcas) EXPECT_EQ(hca.gpudirect, false) << hca.name;
  EXPECT_EQ(machine.gpus.at(0).c2c_links, 8);
  EXPECT_EQ(machine.gpus[0].c2c_mb_per_s, 43125);
  Machine other = checked(in_cpu("<nic><net name='a' gdr='1'/><net name='b'/></nic>"));
  EXPECT_EQ(other.hcas.at(0).gpudirect, true);
  EXPECT_FALSE(other.hcas.at(1).gpudirect.has_value());
}

TEST(NcclXml, Read_PciLinks_ArePeersOfTheirSwitches) {
  Machine machine = read_nccl(kTopologies + "/cases/pcilink.xml");
  ASSERT_EQ(machine.switches.size(), 2u);
  EXPECT_EQ(machine.switches[0].peers, std::vector<Bdf>{machine.switches[1].bdf});
  EXPECT_EQ(machine.switches[1].peers, std::vector<Bdf>{machine.switches[0].bdf});
}

TEST(NcclXml, Read_SplitGpu_IsOneGpuPerPartition) {
  Machine machine = read_nccl(kTopologies + "/cases/mlopart.xml");
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].bdf, machine.gpus[1].bdf);
  EXPECT_EQ(machine.gpus[0].partition, 0);
  EXPECT_EQ(machine.gpus[1].partition, 1);
  EXPECT_EQ(machine.gpus[1].c2c_links, 7);
}

TEST(NcclXml, Read_NetsOfOneSidedTransports_AreNoHcas) {
  Machine machine = read_nccl(kTopologies + "/cases/gin.xml");
  ASSERT_EQ(machine.hcas.size(), 1u);
  EXPECT_EQ(machine.hcas[0].name, "mlx5_0");
  EXPECT_EQ(machine.hcas[0].ports.at(1).number, 2);
}

// The names and numbers that NCCL and the plugin show are not those of verbs, which NCCL_IB_HCA
// has.
TEST(NcclXml, Read_NamesOfNets_AreThePortsOfVerbs) {
  const std::string card = "<nic><net name='mlx5_0' dev='0' port='1' guid='0x1'/>";
  const std::pair<std::string, std::string> cases[] = {
      {card + "<net name='mlx5_0:2' dev='1' port='2' guid='0x1'/></nic>", "mlx5_0:1 mlx5_0:2"},
      {card + "<net name='mlx5_0' dev='1' port='2' guid='0x1'/></nic>", "mlx5_0:1 mlx5_0:2"},
      {card + "<net name='mlx5_0' dev='1' port='3' guid='0x1'/></nic>", "mlx5_0:1 mlx5_0:2"},
      {card + "<net name='mlx5_1' dev='1' port='2' guid='0x1'/></nic>", "mlx5_0:1 mlx5_1:1"},
      {card + "</nic><nic><net name='mlx5_1' dev='1' port='2' guid='0x1'/></nic>",
       "mlx5_0:1 mlx5_1:1"},
      {"<nic><net name='mlx5_1' dev='1' port='2' guid='0x2'/></nic>", "mlx5_1:2"},
      {card + "<net name='mlx5_1' dev='1' port='1' guid='0x1'/></nic>", "mlx5_0:1 mlx5_1:1"},
      {"<nic><net name='mlx5_3_dma' port='1'/></nic>", "mlx5_3:1"},
      {"<nic><net name='mlx5_3_dma:2' port='2'/></nic>", "mlx5_3:2"},
      {"<nic><net name='_dma' port='1'/></nic>", "_dma:1"},
      {"<nic><net name='mlx5_0_dma+mlx5_1_dma' port='1'/></nic>", "mlx5_0_dma+mlx5_1_dma:1"}};
  for (const auto& [elements, ports] : cases) {
    std::string found;
    for (const Hca& hca :
         checked(in_cpu("<pci busid='0000:01:00.0'>" + elements + "</pci>")).hcas) {
      for (const Port& port : hca.ports) {
        found += (found.empty() ? "" : " ") + hca.name + ":" + std::to_string(port.number);
      }
    }
    EXPECT_EQ(found, ports) << elements;
  }
}

// With NCCL_IB_DATA_DIRECT=2, NCCL lists both functions of an HCA.
TEST(NcclXml, Read_BothFunctionsOfAnHca_AreTheDataDirectOne) {
  const std::string plain = "<pci busid='0000:01:00.0'><nic><net name='a'/></nic></pci>";
  const std::string direct = "<pci busid='0000:02:00.0'><nic><net name='a_dma'/></nic></pci>";
  for (const std::string& elements : {plain + direct, direct + plain}) {
    Machine machine = checked(in_cpu(elements));
    ASSERT_EQ(machine.hcas.size(), 1u);
    EXPECT_EQ(machine.hcas[0].bdf->to_string(), "0000:02:00.0");
    EXPECT_TRUE(machine.hcas[0].data_direct);
  }
}

TEST(NcclXml, Read_WhatNcclReadsInAnotherWay_IsAFinding) {
  const std::string gpu = "<gpu dev=\"0\" rank=\"0\"/>", nic = "<nic><net name=\"a\"/></nic>";
  const std::pair<std::string, std::string> cases[] = {
      {"<pci busid=\"0000:1B:00.0\" class=\"0x030200\"/>", "write busid=\"0000:1b:00.0\""},
      {"<pci busid=\"00000000:1b:00.0\" class=\"0x030200\"/>", "write busid=\"0000:1b:00.0\""},
      {"<pci busid=\"1b:00.0\" class=\"0x020700\"/>", "write busid=\"0000:1b:00.0\""},
      {"<pci busid=\"FFFF:1b:00.0\" class=\"0x060400\"/>", ""},
      {"<pci busid=\"FFFF:1b:00.0\"><nic><net name=\"a\"/></nic></pci>", ""},
      {"<pci busid=\"0000:1b:00.0\" link_speed=\"32GT/s\"/>", "\"32.0 GT/s PCIe\""},
      {"<pci busid=\"0000:1b:00.0\" link_speed=\"2.5GT/s\"/>", "\"2.5 GT/s PCIe\""},
      {"<pci busid=\"0000:1b:00.0\" link_speed=\"64 GT/s\"/>", "\"64.0 GT/s PCIe\""},
      {"<pci busid=\"0000:1b:00.0\" link_speed=\"16 GT/s\"/>", ""},
      {"<pci busid=\"0000:1b:00.0\" link_speed=\"Unknown\"/>", ""},
      {"<pci busid=\"0000:1b:00.0\">" + gpu + "<gpu dev=\"1\" rank=\"1\"/></pci>",
       "a <pci> of its"},
      {"<pci busid=\"0000:1b:00.0\">" + gpu + gpu + "</pci>", "a <pci> of its"},
      {"<pci busid=\"0000:1b:00.0\">" + nic + "<nic><net name=\"b\"/></nic></pci>",
       "a <pci> of its"},
      {"<pci busid=\"0000:1b:00.0\">" + nic + "<pci busid=\"0000:1c:00.0\"/></pci>",
       "a <pci> of its"},
      {"<pci busid=\"0000:1b:00.0\">" + gpu + "<gpu dev=\"0\" rank=\"1\"/></pci>", ""}};
  for (const auto& [elements, fix] : cases) {
    const Findings findings = checked(nccl_xml_text("<system version=\"1\"><cpu numaid=\"0\">" +
                                                    elements + "</cpu></system>"))
                                  .findings;
    EXPECT_EQ(findings.empty(), fix.empty()) << elements;
    if (!findings.empty()) EXPECT_THAT(findings[0].fix, HasSubstr(fix));
  }
  const Machine slow =
      checked(in_cpu("<pci busid='0000:1b:00.0' class='0x030200' link_speed='32.0 GT/s'/>"));
  EXPECT_EQ(slow.gpus.at(0).link, (PciLink{8, 0, true}));
}

// Where the file lists only the virtual NIC, that is what NCCL used.
TEST(NcclXml, Read_VirtualNic_CountsOnlyWithoutItsPorts) {
  Machine alone = read_nccl(kTopologies + "/cases/vnic.xml");
  ASSERT_EQ(alone.hcas.size(), 1u);
  EXPECT_EQ(alone.hcas[0].name, "mlx5_0+mlx5_1");
  EXPECT_FALSE(alone.hcas[0].named);
  Machine beside = checked(in_cpu("<nic><net name='a+b'/><net name='a'/><net name='b'/></nic>"));
  ASSERT_EQ(beside.hcas.size(), 2u);
  EXPECT_EQ(beside.hcas[0].name, "a");
  EXPECT_TRUE(beside.hcas[0].named);
  // NCCL marks ports that it merged by net="0".
  Machine merged = checked(in_cpu("<nic><net name='a+b'/><net name='a' net='0'/></nic>"));
  ASSERT_EQ(merged.hcas.size(), 1u);
  EXPECT_EQ(merged.hcas[0].name, "a+b");
}

TEST(NcclXml, Read_TwoHosts_GivesTheOneThatIsSelected) {
  const std::string file = kTopologies + "/cases/nvl72b.xml";
  Machine first = read_nccl(file);
  EXPECT_EQ(first.hosts, 2);
  EXPECT_EQ(first.host, "0xabc0");
  EXPECT_EQ(first.source, "NCCL XML " + file + ", host 0 (0xabc0) of 2");
  EXPECT_EQ(counts_of(first), (Counts{4, 4, 0, 2}));
  EXPECT_EQ(hca_named(first, "mlx5_0").guid, 0x100u);
  Selection second;
  second.host = 1;
  Machine machine = checked(nccl_xml(file, second));
  EXPECT_EQ(machine.host, "0xabc1");
  EXPECT_EQ(counts_of(machine), (Counts{4, 4, 0, 2}));
  EXPECT_EQ(hca_named(machine, "mlx5_0").guid, 0x110u);
}

TEST(NcclXml, Read_HostThatIsNotThere_IsAnErrorThatListsTheHosts) {
  for (int host : {-1, 2}) {
    Selection selection;
    selection.host = host;
    EXPECT_THAT(
        error_of(nccl_xml(kTopologies + "/cases/nvl72b.xml", selection)),
        HasSubstr("no host " + std::to_string(host) + ": of its 2, 0 is 0xabc0, 1 is 0xabc1"));
  }
}

TEST(NcclXml, ReadHosts_Nvl72_GivesEveryTray) {
  auto machines = nccl_xml_hosts(kTopologies + "/cases/nvl72b.xml");
  ASSERT_TRUE(machines.has_value()) << machines.error().text;
  ASSERT_EQ(machines->size(), 2u);
  for (const Machine& machine : *machines) {
    expect_consistent(machine);
    EXPECT_EQ(counts_of(machine), (Counts{4, 4, 0, 2})) << machine.host;
    EXPECT_EQ(machine.hosts, 2);
  }
  EXPECT_EQ(machines->back().host, "0xabc1");
}

TEST(NcclXml, Read_Mistake_IsAnErrorWithItsLine) {
  struct Case {
    const char* inside;
    const char* error;
  };
  for (const Case& one : {
           Case{"<pci class='0x060400'/>", "NCCL XML:3: <pci> has no busid"},
           Case{"\n<pci busid='0000:1:0'/>",
                "NCCL XML:4: <pci> has busid \"0000:1:0\", which is not"},
           Case{"<pci busid='01:00.0' class='0x030200'/>\n<pci busid='01:00.0' class='0x030200'/>",
                "NCCL XML:4: there is a second <pci> with busid 01:00.0"},
           Case{"<nic><net name='a' port='1'/>\n<net name='a' port='1'/></nic>",
                "NCCL XML:4: there is a second <net> with the name a and port 1"},
           Case{"<pci busid='01:00.0'><gpu><nvlink target='x' tclass='0x030200'/></gpu></pci>",
                "NCCL XML:3: <nvlink> has target \"x\""},
           Case{"<pci busid='01:00.0'>\n<pci", "not XML"},
       }) {
    EXPECT_THAT(error_of(in_cpu(one.inside)), HasSubstr(one.error));
  }
}

TEST(NcclXml, Read_BadNumaid_IsQuotedInTheError) {
  for (const std::string numaid : {"", "x", "-2", "1 ", "99999999999999999999"}) {
    EXPECT_THAT(error_of(nccl_xml_text("<system>\n<cpu numaid='" + numaid + "'/></system>")),
                HasSubstr("NCCL XML:2: <cpu> has numaid \"" + numaid));
  }
}

TEST(NcclXml, Read_FilesOfOtherKinds_AreErrors) {
  const std::pair<std::string, std::string> cases[] = {
      {"/nonexistent", "No such file"},
      {kTopologies, kTopologies + " cannot be read"},
      {kTopologies + "/README.md", "not XML"},
      {kTopologies + "/hwloc-flat-vm.xml", "is an hwloc file"},
      {"/dev/zero", "larger than"}};
  for (const auto& [file, error] : cases) EXPECT_THAT(error_of(nccl_xml(file)), HasSubstr(error));
  EXPECT_THAT(error_of(nccl_xml_text("")), HasSubstr("not XML"));
  EXPECT_THAT(error_of(nccl_xml_text("<system/>")), HasSubstr("has no <cpu>"));
}

TEST(NcclXml, Read_DeepNesting_IsAnError) {
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "<pci busid='01:00.0'>";
  EXPECT_THAT(error_of(in_cpu(deep)), HasSubstr("not XML"));
  for (int i = 0; i < 200000; ++i) deep += "</pci>";
  EXPECT_THAT(error_of(in_cpu(deep)), HasSubstr("nested deeper"));
}

TEST(NcclXml, Read_DamagedFiles_GiveAnErrorOrAMachine) {
  for (const char* name : {"/nccl-hgx-4nic.xml", "/nccl-azure-ndv5.xml", "/nccl-gb200-tray.xml"}) {
    expect_damage_survived(read_whole(kTopologies + name), 1000,
                           [](const std::string& text) { return nccl_xml_text(text); });
  }
}

TEST(NcclXml, Read_CountsBeyondAnInt_AreTheGreatestInt) {
  Machine machine = checked(nccl_xml_text(
      "<system><cpu numaid='0'><pci busid='0000:1a:00.0' class='0x030200'><gpu sm='90'>"
      "<c2c count='2147483647'/><c2c count='2'/>"
      "<nvlink target='x' tclass='0x068000' count='2147483647'/>"
      "<nvlink target='y' tclass='0x068000' count='2'/></gpu></pci></cpu></system>"));
  EXPECT_EQ(machine.gpus.at(0).c2c_links, 2147483647);
  EXPECT_EQ(machine.gpus.at(0).nvlinks.at(0).count, 2147483647);
}

}  // namespace
}  // namespace gdr::topology
