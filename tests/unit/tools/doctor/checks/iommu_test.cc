#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

void with_groups(MadePci* made, const std::string& type) {
  made->group(kGpu, type);
  made->group(kHca, type);
}

TEST(Iommu, Off_IsOk) {
  MadePci made;
  std::filesystem::create_directories(made.host.path("/sys/kernel/iommu_groups"));
  const Observations seen = iommu().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("no IOMMU is in use"));
}

TEST(Iommu, Passthrough_IsOkWithTheWordsOfTheCommandLine) {
  MadePci made;
  with_groups(&made, "identity");
  made.write("/proc/cmdline", "quiet intel_iommu=on iommu=pt isolcpus=3\n");
  const Observations seen = iommu().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("identity"));
  EXPECT_THAT(seen[0].evidence, ::testing::EndsWith("has intel_iommu=on iommu=pt"));
}

TEST(Iommu, TranslationBelowASwitch_IsAFailureWithTheType) {
  for (const char* type : {"DMA", "DMA-FQ"}) {
    MadePci made;
    with_groups(&made, type);
    const Observations seen = iommu().run(made.host);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
    EXPECT_EQ(seen[0].subject, "mlx5_0 (0000:1b:00.0)");
    EXPECT_THAT(seen[0].evidence, HasSubstr(std::string("type ") + type + " "));
    EXPECT_THAT(seen[0].fix, HasSubstr("iommu=pt"));
  }
}

TEST(Iommu, TranslationWithoutASharedSwitchOrWithAts_IsAWarning) {
  topology::Machine machine = one_switch();
  machine.hcas[0].gpudirect = false;
  MadePci apart(machine);
  with_groups(&apart, "DMA-FQ");
  EXPECT_EQ(verdict_of(iommu(), apart.host), Verdict::kWarning);
  MadePci ats;
  with_groups(&ats, "DMA-FQ");
  ats.config(kHca, topology::config_space({{0x100, 0x000f, 0, 0x8000}}));
  EXPECT_EQ(verdict_of(iommu(), ats.host), Verdict::kWarning);
}

TEST(Iommu, VirtualIommuThatTranslates_IsAWarning) {
  MadePci made;
  with_groups(&made, "DMA-FQ");
  made.make_virtual();
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kWarning);
}

TEST(Iommu, TranslationOnArmOrWithoutGpu_IsOk) {
  MadePci made;
  with_groups(&made, "DMA-FQ");
  made.machine().cpu.arch = "arm64";
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kOk);
  topology::Machine machine = one_switch();
  machine.gpus.clear();
  made.set(machine);
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kOk);
}

TEST(Iommu, TranslatedGpusWithoutNvlink_AreAWarning) {
  topology::Machine machine = one_switch();
  machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x1c), machine.gpus[0].at));
  machine.gpu_links_known = true;
  MadePci made(machine);
  made.group(kHca, "identity");
  made.group(kGpu, "DMA");
  made.link("/sys/bus/pci/devices/0000:1c:00.0",
            std::string(kMadeSwitch) + "0000:19:02.0/0000:1c:00.0");
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kOk);  // only one of them is translated
  made.link("/sys/bus/pci/devices/0000:1c:00.0/iommu_group", "/sys/kernel/iommu_groups/7");
  const Observations seen = iommu().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[1].subject, HasSubstr("GPU1 (0000:1c:00.0)"));
  for (topology::Gpu& gpu : made.machine().gpus) {
    gpu.nvlinks = {topology::NvLink{topology::NvLink::To::kSwitch, {}, 18}};
  }
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kOk);
}

TEST(Iommu, GroupWithoutType_IsUnknown) {
  MadePci made;
  with_groups(&made, "DMA");
  std::filesystem::remove(made.host.path("/sys/kernel/iommu_groups/8/type"));
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kUnknown);
}

TEST(Iommu, MachineWithoutSysfs_IsUnknown) {
  const MadeHost made;
  EXPECT_EQ(verdict_of(iommu(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
