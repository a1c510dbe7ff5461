#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(NvidiaDriver, OpenModules_AreOkWithTheVersion) {
  MadeHost made;
  add_driven_gpu(&made);
  const Observations seen = nvidia_driver().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence,
            "NVIDIA's driver 570.133.20 is loaded, with the open kernel modules "
            "(/proc/driver/nvidia/version)");
}

TEST(NvidiaDriver, ProprietaryModules_AreOkAndNeedPeermem) {
  MadeHost made;
  add_driven_gpu(&made, kProprietaryModules);
  const Observations seen = nvidia_driver().run(made.host);
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("need nvidia-peermem"));
}

TEST(NvidiaDriver, GpuWithoutDriver_IsAFailureWithAStepWhereTheModuleIsInstalled) {
  MadeHost made;
  made.write("/sys/module/ib_core/refcnt", "0\n");
  made.write("/proc/sys/kernel/osrelease", "6.8.0\n");
  add_nvidia_gpu(&made, "0000:1a:00.0", "");
  add_nvidia_gpu(&made, "0000:3b:00.0", "");
  Observations seen = nvidia_driver().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "0000:1a:00.0, 0000:3b:00.0");
  EXPECT_TRUE(seen[0].steps.empty());
  made.write("/lib/modules/6.8.0/modules.dep", "updates/dkms/nvidia.ko: kernel/a.ko\n");
  seen = nvidia_driver().run(made.host);
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].command, "modprobe nvidia");
}

TEST(NvidiaDriver, OneGpuThatTheDriverDoesNotDrive_IsAFailureOfThatGpu) {
  MadeHost made;
  add_driven_gpu(&made);
  add_nvidia_gpu(&made, "0000:3b:00.0", "");
  const Observations seen = nvidia_driver().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[1].subject, "0000:3b:00.0");
  EXPECT_THAT(seen[1].fix, HasSubstr("dmesg"));
}

TEST(NvidiaDriver, GpuOfNouveau_IsAFailure) {
  MadeHost made;
  made.write("/sys/module/nouveau/refcnt", "0\n");
  add_nvidia_gpu(&made, "0000:1a:00.0", "nouveau");
  const Observations seen = nvidia_driver().run(made.host);
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kFailure);
  EXPECT_THAT(seen[0].fix, HasSubstr("blacklist nouveau"));
}

TEST(NvidiaDriver, GpuOfAVirtualMachine_IsOk) {
  MadeHost made;
  made.write("/sys/module/vfio_pci/refcnt", "0\n");
  add_nvidia_gpu(&made, "0000:1a:00.0", "vfio-pci");
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kOk);
}

TEST(NvidiaDriver, NoGpuOrNoFiles_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kUnknown);
  made.write("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kUnknown);
  add_nvidia_gpu(&made, "0000:1a:00.0", "");
  EXPECT_EQ(verdict_of(nvidia_driver(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
