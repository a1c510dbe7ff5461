// The rails of known machines: our own files, and real servers' where they are beside the tree.
#include <gmock/gmock.h>

#include <filesystem>

#include "topology/rails.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

struct Golden {
  std::string file;
  std::vector<std::string> gpus;  // "mlx5_0 PIX": GPU i's rails and how far the first is
  std::vector<std::string> not_rails = {};
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.file; }

std::string test_name(const ::testing::TestParamInfo<Golden>& info) {
  std::string name = info.param.file.substr(0, info.param.file.rfind('.'));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

Result<Machine> read(const std::filesystem::path& file) {
  bool nccl = file.filename().string().substr(0, 5) == "nccl-";
  return nccl ? nccl_xml(file.string()) : hwloc_xml(file.string());
}

void expect_golden(const std::filesystem::path& folder, const Golden& golden) {
  Result<Machine> machine = read(folder / golden.file);
  ASSERT_TRUE(machine) << machine.error().text;
  PathTable paths(*machine);
  Result<RailPlan> plan = plan_rails(*machine, paths, {});
  ASSERT_TRUE(plan);
  std::vector<std::string> gpus, not_rails;
  for (const GpuRails& gpu : plan->gpus) {
    std::string text;
    for (int rail : gpu.rails) {
      text += (text.empty() ? "" : ",") + port_name(*machine, plan->rails[rail].port);
    }
    gpus.push_back(text + " " + to_string(gpu.path));
  }
  for (const ExcludedPort& other : plan->others)
    not_rails.push_back(port_name(*machine, other.port));
  EXPECT_EQ(gpus, golden.gpus);
  EXPECT_EQ(not_rails, golden.not_rails);
}

class OwnMachine : public ::testing::TestWithParam<Golden> {};

TEST_P(OwnMachine, Rails_AreThoseOfItsShape) { expect_golden(GDR_TOPOLOGIES, GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Golden, OwnMachine,
    ::testing::Values(
        // The vendor's user guide has this table for the DGX H100.
        Golden{"hwloc-dgx-h100.xml",
               {"mlx5_0 PIX", "mlx5_3 PIX", "mlx5_4 PIX", "mlx5_5 PIX", "mlx5_6 PIX", "mlx5_9 PIX",
                "mlx5_10 PIX", "mlx5_11 PIX"},
               {"mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"}},
        Golden{"hwloc-dual-port-cards.xml",
               {"mlx5_0 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_3 PIX"}},
        // The second port of mlx5_1 is a rail, but down.
        Golden{"hwloc-flat-vm.xml", {"mlx5_0 PHB", "mlx5_1:1 PHB"}},
        Golden{"hwloc-power9.xml", {"mlx5_0 PHB", "mlx5_1 PHB", "mlx5_2 PHB", "mlx5_3 PHB"}},
        Golden{"hwloc-two-socket-plain.xml", {"mlx5_0 PHB", "mlx5_1 PHB"}},
        Golden{"nccl-azure-ndv4.xml",
               {"0201:00:00.0 PIX", "0202:00:00.0 PIX", "0203:00:00.0 PIX", "0204:00:00.0 PIX",
                "0205:00:00.0 PIX", "0206:00:00.0 PIX", "0207:00:00.0 PIX", "0208:00:00.0 PIX"}},
        Golden{"nccl-azure-ndv5.xml",
               {"0201:00:00.0 PIX", "0202:00:00.0 PIX", "0203:00:00.0 PIX", "0204:00:00.0 PIX",
                "0205:00:00.0 PIX", "0206:00:00.0 PIX", "0207:00:00.0 PIX", "0208:00:00.0 PIX"}},
        Golden{"nccl-dgx-a100.xml",
               {"mlx5_0 PXB", "mlx5_1 PXB", "mlx5_2 PXB", "mlx5_3 PXB", "mlx5_6 PXB", "mlx5_7 PXB",
                "mlx5_8 PXB", "mlx5_9 PXB"},
               {"mlx5_4", "mlx5_10"}},
        Golden{"nccl-gb200-tray.xml", {"mlx5_0 P2C", "mlx5_1 P2C", "mlx5_2 P2C", "mlx5_3 P2C"}},
        Golden{"nccl-hgx-4nic.xml",
               {"mlx5_0 PIX", "mlx5_0 PIX", "mlx5_1 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_2 PIX",
                "mlx5_3 PIX", "mlx5_3 PIX"}}),
    test_name);

class RealMachine : public ::testing::TestWithParam<Golden> {};

TEST_P(RealMachine, Rails_AreThoseOfItsShape) {
  std::filesystem::path folder = GDR_SHARED_TOPOLOGIES;
  if (!std::filesystem::exists(folder / GetParam().file)) {
    GTEST_SKIP() << "real servers' topologies are not beside this tree";
  }
  expect_golden(folder, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Golden, RealMachine,
    ::testing::Values(
        Golden{"hwloc-aws-g4dn-metal-8gpu-1efa.xml",
               {"rdmap197s0 SYS", "rdmap197s0 SYS", "rdmap197s0 SYS", "rdmap197s0 SYS",
                "rdmap197s0 PHB", "rdmap197s0 PHB", "rdmap197s0 PHB", "rdmap197s0 PHB"}},
        Golden{"hwloc-corona-8amdgpu-1nic.xml",
               {"mlx5_0 SYS", "mlx5_0 SYS", "mlx5_0 SYS", "mlx5_0 SYS", "mlx5_0 PHB", "mlx5_0 PHB",
                "mlx5_0 PHB", "mlx5_0 PHB"}},
        Golden{"hwloc-cts1-pascal-2gpu-1nic.xml", {"mlx5_0 PIX", "mlx5_0 PIX"}},
        Golden{"hwloc-dgx2h-16gpu-11nic.xml",
               {"mlx5_1 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_2 PIX", "mlx5_3 PIX", "mlx5_3 PIX",
                "mlx5_4 PIX", "mlx5_4 PIX", "mlx5_7 PIX", "mlx5_7 PIX", "mlx5_8 PIX", "mlx5_8 PIX",
                "mlx5_9 PIX", "mlx5_9 PIX", "mlx5_10 PIX", "mlx5_10 PIX"},
               {"mlx5_0", "mlx5_5", "mlx5_6"}},
        Golden{"hwloc-power9-lassen-4gpu-4nic.xml",
               {"mlx5_0 PHB", "mlx5_1 PHB", "mlx5_2 PHB", "mlx5_3 PHB"}},
        Golden{"hwloc-supermicro-221h-1gpu-2nic.xml", {"mlx5_0,mlx5_1 PHB"}},
        Golden{"nccl-aws-p4d-8gpu-4efa.xml",
               {"0000:10:1b.0 PIX", "0000:10:1b.0 PIX", "0000:20:1b.0 PIX", "0000:20:1b.0 PIX",
                "0000:90:1b.0 PIX", "0000:90:1b.0 PIX", "0000:a0:1b.0 PIX", "0000:a0:1b.0 PIX"}},
        Golden{"nccl-azure-ndv4-8gpu-8nic.xml",
               {"0101:00:00.0 PIX", "0102:00:00.0 PIX", "0103:00:00.0 PIX", "0104:00:00.0 PIX",
                "0105:00:00.0 PIX", "0106:00:00.0 PIX", "0107:00:00.0 PIX", "0108:00:00.0 PIX"}},
        Golden{"nccl-azure-ndv5-8gpu-8nic.xml",
               {"0101:00:00.0 PIX", "0102:00:00.0 PIX", "0103:00:00.0 PIX", "0104:00:00.0 PIX",
                "0105:00:00.0 PIX", "0106:00:00.0 PIX", "0107:00:00.0 PIX", "0108:00:00.0 PIX"}},
        Golden{"nccl-dgx-a100-8gpu-10nic.xml",
               {"mlx5_0 PXB", "mlx5_1 PXB", "mlx5_2 PXB", "mlx5_3 PXB", "mlx5_6 PXB", "mlx5_7 PXB",
                "mlx5_8 PXB", "mlx5_9 PXB"},
               {"mlx5_4", "mlx5_5:2", "mlx5_10", "mlx5_11:2"}},
        Golden{"nccl-rccl-mi300x-8gpu-8nic.xml",
               {"mlx5_0 PXB", "mlx5_1 PXB", "mlx5_2 PXB", "mlx5_3 PXB", "mlx5_4 PXB", "mlx5_5 PXB",
                "mlx5_6 PXB", "mlx5_7 PXB"}}),
    test_name);

}  // namespace
}  // namespace gdr::topology
