#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(Sysfs, ShowsEveryDevice_IsOk) {
  MadeHost made;
  made.write("/sys/bus/pci/devices/0000:1a:00.0/vendor", "0x10de\n");
  made.write("/proc/driver/nvidia/gpus/0000:1A:00.0/information", "Model: H100\n");
  made.write("/sys/class/net/lo/mtu", "65536\n");
  EXPECT_EQ(verdict_of(sysfs(), made.host), Verdict::kOk);
}

TEST(Sysfs, HidesAGpu_IsAFailureThatNamesIt) {
  MadeHost made;
  made.write("/sys/class/net/lo/mtu", "65536\n");
  made.write("/proc/driver/nvidia/gpus/0000:1a:00.0/information", "Model: H100\n");
  const Observations seen = sysfs().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "0000:1a:00.0");
}

TEST(Sysfs, HidesAnHca_IsAFailureThatNamesIt) {
  MadeHost made;
  made.write("/sys/class/infiniband/rxe0/parent", "eth0\n");
  std::filesystem::create_symlink("../../devices/pci0000:00/infiniband/mlx5_0",
                                  made.host.path("/sys/class/infiniband/mlx5_0"));
  const Observations seen = sysfs().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "mlx5_0");
}

TEST(Sysfs, WithoutPciDevices_IsOk) {
  MadeHost made;
  made.write("/sys/class/net/lo/mtu", "65536\n");
  EXPECT_EQ(verdict_of(sysfs(), made.host), Verdict::kOk);
}

TEST(Sysfs, NotMounted_IsAFailure) {
  MadeHost made;
  std::filesystem::remove_all(made.host.path("/sys"));
  made.host.is_live = true;
  EXPECT_EQ(verdict_of(sysfs(), made.host), Verdict::kFailure);
}

TEST(Sysfs, NotCopied_IsUnknown) {
  MadeHost made;
  std::filesystem::remove_all(made.host.path("/sys"));
  EXPECT_EQ(verdict_of(sysfs(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
