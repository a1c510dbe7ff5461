#include "tools/sources/nvidia_smi.h"

#include <gmock/gmock.h>

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

Machine read_smi(const std::string& text) { return checked(nvidia_smi_text(text, "paste.txt")); }

std::string error_of_smi(const std::string& text) {
  return error_of(nvidia_smi_text(text, "paste.txt"));
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
                "the legend names NIC1, which the matrix has no column for"},
       }) {
    EXPECT_THAT(error_of_smi(one.text), HasSubstr(one.error));
  }
  auto missing = nvidia_smi("/nonexistent");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().text, HasSubstr("/nonexistent cannot be read"));
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
      auto machine = nvidia_smi_text(mutate(text, &random), "paste.txt");
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
