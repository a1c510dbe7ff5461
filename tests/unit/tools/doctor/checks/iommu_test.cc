#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
namespace {

void with_groups(MadePci* made, const std::string& type) {
  made->group(kMadeGpu, type);
  made->group(kMadeHca, type);
}

TEST(Iommu, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "iommu", {{"off",
                 [](MadePci* made) {
                   std::filesystem::create_directories(made->host.path("/sys/kernel/iommu_groups"));
                 },
                 Verdict::kOk, "", "no IOMMU is in use"},
                {"passthrough",
                 [](MadePci* made) {
                   with_groups(made, "identity");
                   made->write("/proc/cmdline", "quiet intel_iommu=on iommu=pt isolcpus=3\n");
                 },
                 Verdict::kOk, "", "has intel_iommu=on iommu=pt"},
                {"strict, below a switch", [](MadePci* made) { with_groups(made, "DMA"); },
                 Verdict::kFailure, "mlx5_0 (0000:1b:00.0)", "type DMA ", "iommu=pt"},
                {"lazy, below a switch", [](MadePci* made) { with_groups(made, "DMA-FQ"); },
                 Verdict::kFailure, "mlx5_0 (0000:1b:00.0)", "type DMA-FQ "},
                {"without GPUDirect RDMA",
                 [](MadePci* made) {
                   topology::Machine machine = one_switch();
                   machine.hcas[0].gpudirect = false;
                   made->set(machine);
                   with_groups(made, "DMA-FQ");
                 },
                 Verdict::kWarning},
                {"with ATS",
                 [](MadePci* made) {
                   with_groups(made, "DMA-FQ");
                   made->config(kMadeHca, topology::config_space({{0x100, 0x000f, 0, 0x8000}}));
                 },
                 Verdict::kWarning},
                {"virtual",
                 [](MadePci* made) {
                   with_groups(made, "DMA-FQ");
                   made->make_virtual();
                 },
                 Verdict::kWarning},
                {"on Arm",
                 [](MadePci* made) {
                   with_groups(made, "DMA-FQ");
                   made->machine().cpu.arch = "arm64";
                 },
                 Verdict::kOk},
                {"no GPU",
                 [](MadePci* made) {
                   with_groups(made, "DMA-FQ");
                   topology::Machine machine = one_switch();
                   machine.gpus.clear();
                   made->set(machine);
                 },
                 Verdict::kOk},
                {"group without type",
                 [](MadePci* made) {
                   with_groups(made, "DMA");
                   std::filesystem::remove(made->host.path("/sys/kernel/iommu_groups/8/type"));
                 },
                 Verdict::kUnknown},
                {"HCA that sysfs does not show",
                 [](MadePci* made) {
                   with_groups(made, "identity");
                   made->set(topology::flat(1, 1));
                 },
                 Verdict::kUnknown, "mlx5_0 (0000:40:00.0)"},
                {"no sysfs",
                 [](MadePci* made) { std::filesystem::remove_all(made->host.path("/sys/kernel")); },
                 Verdict::kUnknown, "", "", "copy /sys from the machine"}});
}

TEST(Iommu, NoTopology_IsUnknownForTheReason) {
  MadePci made;
  with_groups(&made, "identity");
  made.host.inspection.reset();
  made.host.inspection_error = "\33";
  const Observation seen = worst_of("iommu", made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_EQ(seen.evidence, "the topology is unknown: \uFFFD");
  EXPECT_EQ(seen.needs, "copy /sys from the machine");
}

}  // namespace
}  // namespace gdr::tools::doctor
