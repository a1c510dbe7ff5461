#include "tools/sources/nvidia_smi.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/topology/machine_checks.h"
#include "topology/path_class.h"

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;

// As a recent driver prints it, with tabs and an underlined first line.
constexpr char kTwoSockets[] =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA "
    "ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\tNODE\t0-47\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tPXB\tSYS\tNODE\t0-47\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tPIX\tSYS\t48-95\t1\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tPHB\tSYS\t48-95\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tSYS\t X \tSYS\tNODE\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tPIX\tPHB\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC2\tNODE\tNODE\tSYS\tSYS\tNODE\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as ...\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n  NIC2: mlx5_bond_0\n";

// As older drivers print it, pasted into a ticket.
constexpr char kOldAndQuoted[] =
    "Here is what I see:\n"
    ">         GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity\n"
    "> GPU0     X      PHB     PIX     SOC     0-13\n"
    "> GPU1    PHB      X      PHB     SOC     0-13\n"
    "> mlx5_0  PIX     PHB      X      SOC\n"
    "> mlx5_1  SOC     SOC     SOC      X\n";

Machine read_smi(const std::string& text) { return checked(nvidia_smi(text, "paste.txt")); }

std::string error_of_smi(const std::string& text) {
  return error_of(nvidia_smi(text, "paste.txt"));
}

// Returns the row of the matrix as the machine has it: "PIX NODE".
std::string row_of(const Machine& machine, size_t gpu) {
  PathTable paths(machine);
  std::string row;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    if (hca > 0) row += " ";
    row += display_name(paths.gpu_hca(gpu, hca), machine.gpus[gpu].at, machine.hcas[hca].at);
  }
  return row;
}

// Returns the text with `before` in front of each line and `after` behind it.
std::string framed(const std::string& text, const std::string& before,
                   const std::string& after = "") {
  std::istringstream lines(text);
  std::string framed;
  for (std::string line; std::getline(lines, line);) framed += before + line + after + "\n";
  return framed;
}

constexpr char kPair[] =
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNODE\tPIX\t0-31\t0\nGPU1\tNODE\t X \tNODE\t0-31\t0\nNIC0\tPIX\tNODE\t X \n";

// `topo -mp` has no NVLinks, and no line of them in its legend.
TEST(NvidiaSmi, Read_NvLinks_AreKnownWhereACellOrTheLegendHasThem) {
  const std::string pair = kPair;
  EXPECT_FALSE(read_smi(pair).gpu_links_known);
  EXPECT_FALSE(read_smi(pair + "Legend:\n  X    = Self\n  PIX  = ...\n").gpu_links_known);
  EXPECT_THAT(read_smi(pair).source, HasSubstr("NVLinks"));
  EXPECT_TRUE(read_smi(pair + "Legend:\n  NV#  = Connection ...\n").gpu_links_known);
  EXPECT_TRUE(read_smi("GPU0 GPU1 CPU Affinity\nGPU0 X NV1 0\nGPU1 NV1 X 0\n").gpu_links_known);
}

TEST(NvidiaSmi, Read_TextThatLacksDevices_SaysSo) {
  const std::string note = "9 NICs found in the topology, only displaying 1 in the matrix.\n";
  EXPECT_THAT(read_smi(note + kPair).source, HasSubstr("1 of 9 NICs"));
  EXPECT_THAT(read_smi("NOTE: " + note + kPair).source, HasSubstr("1 of 9 NICs"));
  EXPECT_THAT(read_smi(kPair + note).source, HasSubstr("1 of 9 NICs"));
  const std::string two =
      "GPU0 NIC0 NIC1 CPU Affinity\nGPU0 X PIX PIX 0-3\nNIC0 PIX X PIX\nNIC1 PIX PIX X\n";
  EXPECT_THAT(read_smi(two + "NIC0: mlx5_0\n").source, HasSubstr("the legend does not name NIC1"));
  EXPECT_TRUE(read_smi(two + "NIC0: mlx5_0\nNIC1: mlx5_1\n").findings.empty());
  EXPECT_TRUE(read_smi(two).findings.empty());
  EXPECT_THAT(read_smi("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n").findings.at(0).text,
              HasSubstr("CPU Affinity"));
}

TEST(NvidiaSmi, Read_SeveralHosts_AreAnError) {
  const std::string pair = kPair;
  std::string mixed;  // as pdsh prints what arrives
  std::istringstream of_a(framed(pair, "host-a: ")), of_b(framed(pair, "host-b: "));
  for (std::string one, other; std::getline(of_a, one) && std::getline(of_b, other);) {
    mixed += one + "\n" + other + "\n";
  }
  for (const std::string& text : {pair + "\n" + pair, "host-a:\n" + pair + "host-b:\n" + pair,
                                  framed(pair, "a: ") + framed(pair, "b: "), mixed}) {
    EXPECT_THAT(error_of_smi(text), HasSubstr("2 matrices")) << text;
  }
}

TEST(NvidiaSmi, Read_NumaNodes_AreThoseOfTheText) {
  const std::string head = "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n";
  auto nodes = [&](const std::string& zero, const std::string& one, const char* cell = "SYS") {
    Machine machine =
        read_smi(head + "GPU0 X " + cell + " " + zero + "\nGPU1 " + cell + " X " + one);
    EXPECT_EQ(machine.gpus[0].at.numa == machine.gpus[1].at.numa, std::string(cell) == "NODE");
    return std::pair(numa_id(machine, machine.gpus[0].at), numa_id(machine, machine.gpus[1].at));
  };
  EXPECT_EQ(nodes("0-7 0 N/A", "0-7 0 N/A"), std::pair(0, 0));
  EXPECT_EQ(nodes("0-7 N/A N/A", "8-15 N/A N/A"), std::pair(-1, -1));
  EXPECT_EQ(nodes("0-7 N/A N/A", "8-15 1 N/A"), std::pair(-1, 1));
  EXPECT_EQ(nodes("0-7 3 N/A", "0-7 N/A N/A", "NODE"), std::pair(3, 3));
  EXPECT_EQ(nodes("0-7 3 N/A", "0-7 4 N/A", "NODE"), std::pair(-1, -1));
  EXPECT_EQ(nodes("0 N/A", "168-2231 N/A"), std::pair(-1, -1));  // a column is empty, or glued
}

// Each line as it comes from a launcher with one word in front of each, or from a page.
TEST(NvidiaSmi, Read_FramedLines_AreReadAsWithoutTheFrame) {
  const std::string text = std::string(kPair) + "NIC Legend:\n  NIC0: mlx5_7\n";
  for (const std::string before : {"host-a: ", "3: ", "[pod/nccl-0/main] ", "│ ", "> > ",
                                   "\xc2\xa0\xc2\xa0", "\xef\xbb\xbf"}) {
    const std::string one = framed(text, before, before == "│ " ? " │" : "\r");
    EXPECT_TRUE(has_smi_matrix(one)) << one;
    Machine machine = read_smi(one);
    EXPECT_EQ(counts_of(machine), (Counts{2, 1, 1, 1})) << one;
    EXPECT_EQ(row_of(machine, 1), "NODE") << one;
    EXPECT_EQ(machine.hcas.at(0).name, "mlx5_7") << one;
    EXPECT_EQ(machine.hosts, 1) << one;
  }
  std::string wide = "\xff\xfe";
  for (const char* byte = kPair; *byte != 0; ++byte) wide += {*byte, '\0'};
  EXPECT_EQ(row_of(read_smi(wide), 0), "PIX");
  const std::string table =
      "| **Device** | **GPU0** | **NIC0** | **CPU Affinity** |\n|---|---|---|---|\n"
      "| **GPU0** | X | `PIX` | 0-31 |\n| **NIC0** | PIX | X | |\n";
  EXPECT_EQ(row_of(read_smi(table), 0), "PIX");
}

TEST(NvidiaSmi, OtherMatrices_AreSkipped) {
  const std::string peers = "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n  X    = Self\n";
  EXPECT_EQ(row_of(read_smi(peers + kPair), 0), "PIX");
  EXPECT_EQ(row_of(read_smi(kPair + peers), 0), "PIX");
  EXPECT_FALSE(has_smi_matrix(peers));
  EXPECT_FALSE(
      has_smi_matrix("       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n"));
}

TEST(NvidiaSmi, NicWithoutALegend_HasNoNameThatVerbsKnows) {
  EXPECT_FALSE(read_smi("GPU0 NIC0 CPU Affinity\nGPU0 X PIX 0-13\nNIC0 PIX X\n").hcas[0].named);
  EXPECT_TRUE(read_smi(kOldAndQuoted).hcas[0].named);
}

TEST(NvidiaSmi, Read_Matrix_GivesItsDistancesAndSaysWhatIsMadeUp) {
  Machine machine = read_smi(kTwoSockets);
  EXPECT_EQ(counts_of(machine), (Counts{4, 3, 4, 2}));
  EXPECT_EQ(machine.hcas[1].name, "mlx5_3");
  EXPECT_EQ(row_of(machine, 0), "PIX SYS NODE");
  EXPECT_EQ(row_of(machine, 1), "PXB SYS NODE");
  EXPECT_EQ(row_of(machine, 2), "SYS PIX SYS");
  EXPECT_EQ(row_of(machine, 3), "SYS PHB SYS");
  EXPECT_EQ(numa_id(machine, machine.gpus[3].at), 1);
  EXPECT_EQ(machine.numa_nodes.at(1).cpus, "ffffffff,ffff0000,00000000");
  EXPECT_EQ(machine.gpus[2].dev, 2);
  EXPECT_THAT(machine.source, HasSubstr("addresses are made up"));
  EXPECT_EQ(machine.gpus[0].bdf.domain, 0xffffu);
  EXPECT_EQ(machine.hcas[0].ports.at(0), Port{});
}

TEST(NvidiaSmi, Read_NvLinks_AreToSwitchesWhereAGpuCannotHaveThatMany) {
  EXPECT_EQ(read_smi(kTwoSockets).gpus[0].nvlinks,
            (std::vector<NvLink>{{NvLink::To::kSwitch, std::nullopt, 18}}));
  Machine mesh = read_smi(
      "GPU0 GPU1 GPU2 CPU Affinity NUMA Affinity\n"
      "GPU0 X NV4 NV4 0-7 0\nGPU1 NV4 X SYS 0-7 0\nGPU2 NV4 SYS X 8-15 1\n");
  EXPECT_EQ(mesh.gpus[0].nvlinks, (std::vector<NvLink>{{NvLink::To::kGpu, mesh.gpus[1].bdf, 4},
                                                       {NvLink::To::kGpu, mesh.gpus[2].bdf, 4}}));
  EXPECT_EQ(numa_id(mesh, mesh.gpus[2].at), 1);
}

TEST(NvidiaSmi, Read_OldDriversText_HasTheNamesOfTheColumns) {
  Machine machine = read_smi(kOldAndQuoted);
  EXPECT_EQ(counts_of(machine), (Counts{2, 2, 1, 2}));
  EXPECT_EQ(machine.hcas[0].name, "mlx5_0");
  EXPECT_EQ(row_of(machine, 0), "PIX SYS");
  EXPECT_EQ(row_of(machine, 1), "PHB SYS");
}

// CPUs that belong to more than one node, or that the driver does not know.
TEST(NvidiaSmi, Read_CpuAffinityOfNoSingleNode_IsUnknown) {
  const std::pair<const char*, const char*> cases[] = {
      {"0-7 0", "000000ff"}, {"0-7 0-1", ""}, {"N/A 0", ""}, {"N/A N/A", ""}, {"0-99999 0", ""}};
  for (const auto& [affinity, cpus] : cases) {
    const std::string text = "GPU0 NIC0 CPU Affinity NUMA Affinity\nGPU0 X PIX ";
    EXPECT_EQ(read_smi(text + affinity + "\nNIC0 PIX X\n").numa_nodes.at(0).cpus, cpus);
  }
}

// Grace Hopper: the memory of a GPU is a NUMA node only where NVLink-C2C connects it.
TEST(NvidiaSmi, Read_GpuWithANumaNode_HasC2c) {
  Machine machine = read_smi(
      "GPU0 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X NODE 0-71 0 1\nNIC0 NODE X\n");
  EXPECT_EQ(machine.gpus.at(0).c2c_links, 1);
  EXPECT_EQ(machine.cpu.arch, "arm64");
}

TEST(NvidiaSmi, Read_TextThatCannotBeRight_IsAnErrorThatSaysWhere) {
  struct Case {
    const char* text;
    const char* error;
  };
  for (const Case& one : {
           Case{"", "paste.txt: no line names the columns"},
           Case{"GPU0 GPU1\nGPU0 X SYS\n\nGPU1 PIX X\n",
                "line 4: GPU1 and GPU0 are connected by PIX, but another line says otherwise"},
           Case{"GPU0 GPU1\nGPU0 X\n", "line 2: row GPU0 has 1 of 2 cells"},
           Case{"GPU0 GPU1\nGPU0 X FOO\n", "\"FOO\" cannot be what connects GPU0 and GPU1"},
           Case{"GPU0 GPU1\nGPU0 X X\n", "\"X\" cannot be what connects GPU0 and GPU1"},
           Case{"GPU0 GPU1 GPU2\nGPU0 X SYS SYS\n", "no row says what connects GPU1 and GPU2"},
           Case{"GPU0 GPU0\n", "there are two columns GPU0"},
           Case{"GPU0 NIC0 NIC1\nGPU0 X PIX SYS\nNIC0 PIX X PIX\nNIC1 SYS PIX X\n",
                "contradicts itself: GPU0 and NIC1 are SYS, but by their distances to other "
                "devices PIX"},
           // Terminals wrap long lines, and pasting keeps the breaks: columns are then on lines of
           // their own.
           Case{"GPU0 NIC0\n NIC1 CPU Affinity\nGPU0 X PIX\n SYS 0-13\nNIC0 PIX X\n SYS\n"
                "NIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n",
                "line 2: the line of the columns is broken"},
           Case{"GPU0 NIC0 CPU Affinity\nGPU0 X PIX 0-13\nNIC0 PIX X\nNIC1 SYS SYS\n",
                "line 4: the matrix has a row but no column NIC1"},
           Case{"GPU0 NIC0\nGPU0 X PIX\nNIC0 PIX X\nNIC0: mlx5_0\nNIC1: mlx5_1\n",
                "the legend names NIC1, which the matrix has no column for"},
           Case{"[1,0]<stdout>: 10:02:03 GPU0 GPU1\n[1,0]<stdout>: 10:02:03 GPU0 X SYS\n",
                "no line names the columns"},
           // Old drivers have no legend of NICs.
           Case{"GPU0 GPU1\n mlx5_0 CPU Affinity\nGPU0 X PHB\n PIX 0-13\nGPU1 PHB X\n SYS 0-13\n"
                "mlx5_0 PIX SYS\n X\n",
                "line 2: the line of the columns is broken"},
           Case{"GPU0 GPU1\nGPU2 GPU3\nGPU0 X SYS\nSYS SYS\n",
                "line 2: the line of the columns is broken"},
       }) {
    EXPECT_THAT(error_of_smi(one.text), HasSubstr(one.error));
  }
}

TEST(NvidiaSmi, HasMatrix_OtherText_IsNone) {
  EXPECT_TRUE(has_smi_matrix(kTwoSockets));
  EXPECT_TRUE(has_smi_matrix(kOldAndQuoted));
  for (const char* text : {"", "GPU", "GPU0 is broken", "GPU0 X SYS", "GPU1 NV18 X", "<system/>"}) {
    EXPECT_FALSE(has_smi_matrix(text)) << text;
  }
}

TEST(NvidiaSmi, Read_DamagedText_GivesAnErrorOrAMachine) {
  std::mt19937 random(3);
  for (const char* text : {kTwoSockets, kOldAndQuoted}) {
    for (int i = 0; i < 2000; ++i) {
      auto machine = nvidia_smi(mutate(text, &random), "paste.txt");
      if (machine) {
        expect_consistent(*machine);
      } else {
        EXPECT_FALSE(machine.error().text.empty());
      }
    }
  }
}

}  // namespace
}  // namespace gdr::topology
