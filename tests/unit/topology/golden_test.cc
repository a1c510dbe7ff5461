// The rails of machines of known shapes: the files of tests/topologies, whose README describes
// them.
#include <gmock/gmock.h>

#include <filesystem>

#include "tools/sources/hwloc_xml.h"
#include "topology/rails.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

struct Golden {
  std::string file;
  std::vector<std::string> gpus;  // "mlx5_0 PIX": GPU i's rails and how far the first is
  std::vector<std::string> excluded = {};
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.file; }

std::string test_name(const ::testing::TestParamInfo<Golden>& info) {
  std::string name = info.param.file.substr(0, info.param.file.rfind('.'));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

Result<Machine> read(const std::filesystem::path& file) {
  const bool nccl =
      file.filename().string().starts_with("nccl-") || file.parent_path().filename() == "cases";
  return nccl ? nccl_xml(file.string()) : hwloc_xml(file.string());
}

void expect_golden(const std::filesystem::path& folder, const Golden& golden) {
  Result<Machine> machine = read(folder / golden.file);
  ASSERT_TRUE(machine) << machine.error().text;
  PathTable paths(*machine);
  Result<RailPlan> plan = plan_rails(*machine, paths, {});
  ASSERT_TRUE(plan);
  std::vector<std::string> gpus, excluded;
  for (size_t gpu = 0; gpu < plan->gpus.size(); ++gpu) {
    std::string text;
    for (const Rail* rail : plan->rails_of(gpu)) {
      text += (text.empty() ? "" : ",") + port_name(*machine, rail->port);
    }
    gpus.push_back(text + " " + to_string(plan->gpus[gpu].path));
  }
  for (const ExcludedPort& one : plan->excluded) {
    excluded.push_back(port_name(*machine, one.port));
  }
  EXPECT_EQ(gpus, golden.gpus);
  EXPECT_EQ(excluded, golden.excluded);
}

class KnownMachine : public ::testing::TestWithParam<Golden> {};

TEST_P(KnownMachine, PlanRails_GivesTheRailsOfItsShape) {
  expect_golden(GDR_TOPOLOGIES, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Golden, KnownMachine,
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
        Golden{"hwloc-one-gpu.xml", {"mlx5_0,mlx5_1 PHB"}},
        Golden{"hwloc-two-socket-plain.xml", {"mlx5_0 PHB", "mlx5_1 PHB"}},
        Golden{"nccl-amd-4gpu.xml", {"mlx5_0 PXB", "mlx5_1 PXB", "mlx5_2 PXB", "mlx5_3 PXB"}},
        Golden{"nccl-azure-ndv4.xml",
               {"0201:00:00.0 PIX", "0202:00:00.0 PIX", "0203:00:00.0 PIX", "0204:00:00.0 PIX",
                "0205:00:00.0 PIX", "0206:00:00.0 PIX", "0207:00:00.0 PIX", "0208:00:00.0 PIX"}},
        Golden{"nccl-azure-ndv5.xml",
               {"0201:00:00.0 PIX", "0202:00:00.0 PIX", "0203:00:00.0 PIX", "0204:00:00.0 PIX",
                "0205:00:00.0 PIX", "0206:00:00.0 PIX", "0207:00:00.0 PIX", "0208:00:00.0 PIX"}},
        Golden{"nccl-cloud-4nic.xml",
               {"0000:18:1d.0 PIX", "0000:18:1d.0 PIX", "0000:28:1d.0 PIX", "0000:28:1d.0 PIX",
                "0000:98:1d.0 PIX", "0000:98:1d.0 PIX", "0000:a8:1d.0 PIX", "0000:a8:1d.0 PIX"}},
        // All NICs of a socket are PXB; the one below the same switch is nearer.
        // The NIC of the first switch is on the third, so the first two GPUs have none of their
        // own.
        Golden{"nccl-cross-wired.xml",
               {"mlx5_0 PHB", "mlx5_0 PHB", "mlx5_0 PIX", "mlx5_0 PIX", "mlx5_1 PIX", "mlx5_2 PIX",
                "mlx5_3 PIX", "mlx5_3 PIX"}},
        Golden{"nccl-dgx-a100.xml",
               {"mlx5_0 PXB", "mlx5_1 PXB", "mlx5_2 PXB", "mlx5_3 PXB", "mlx5_6 PXB", "mlx5_7 PXB",
                "mlx5_8 PXB", "mlx5_9 PXB"},
               {"mlx5_4", "mlx5_10"}},
        Golden{"nccl-gb200-tray.xml", {"mlx5_0 PHB", "mlx5_1 PHB", "mlx5_2 PHB", "mlx5_3 PHB"}},
        Golden{"nccl-hgx-4nic.xml",
               {"mlx5_0 PIX", "mlx5_0 PIX", "mlx5_1 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_2 PIX",
                "mlx5_3 PIX", "mlx5_3 PIX"}},
        // PCI addresses alternate between the sockets. Each GPU has the NIC of its socket.
        Golden{"nccl-nps4-2nic.xml",
               {"mlx5_0 SYS", "mlx5_1 SYS", "mlx5_0 SYS", "mlx5_1 PHB", "mlx5_0 SYS", "mlx5_1 SYS",
                "mlx5_0 PHB", "mlx5_1 SYS"}},
        Golden{"cases/dgx1v.xml",
               {"mlx5_0 PIX", "mlx5_0 PIX", "mlx5_1 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_2 PIX",
                "mlx5_3 PIX", "mlx5_3 PIX"}},
        // Together the slower ports have twice the bandwidth of the faster one.
        Golden{"cases/flatslow.xml",
               {"mlx5_0 PHB", "mlx5_1 PHB", "mlx5_2 PHB", "mlx5_3,mlx5_4 PHB"}},
        Golden{"cases/gb300.xml",
               {"mlx5_0 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_3 PIX"},
               {"mlx5_bf0", "mlx5_bf1"}},
        // No GPU, so every port is a rail.
        Golden{"cases/nogpu.xml", {}},
        // The GPU and the NIC are below switches that a cable joins.
        Golden{"cases/pcilink.xml", {"mlx5_0 PXB"}},
        // A port of four times the speed far from all GPUs, with a quarter of the bandwidth.
        Golden{"cases/slowmany.xml",
               {"mlx5_0 PIX", "mlx5_1 PIX", "mlx5_2 PIX", "mlx5_3 PIX", "mlx5_4 PIX", "mlx5_5 PIX",
                "mlx5_6 PIX", "mlx5_7 PIX"},
               {"mlx5_8"}}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    HwlocOfOtherVersions, KnownMachine,
    ::testing::Values(Golden{"hwloc-version-1.xml", {"mlx5_0 PIX", "mlx5_1 PIX"}},
                      // One rail on each GPU's socket, whatever its memory.
                      Golden{"hwloc-xeon-max-flat.xml", {"mlx5_0 PHB", "mlx5_1 PHB"}}),
    test_name);

}  // namespace
}  // namespace gdr::topology
