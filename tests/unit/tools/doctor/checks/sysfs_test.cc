#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

void remove_sysfs(MadeHost* made) { std::filesystem::remove_all(made->host.path("/sys")); }

TEST(Sysfs, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "sysfs",
      {{"shows the GPU",
        with_files({{"/sys/bus/pci/devices/0000:1a:00.0/vendor", "0x10de\n"},
                    {"/proc/driver/nvidia/gpus/0000:1A:00.0/information", "Model: H100\n"}}),
        Verdict::kOk},
       {"hides a GPU",
        with_files({{"/proc/driver/nvidia/gpus/0000:1a:00.0/information", "Model: H100\n"}}),
        Verdict::kFailure, "0000:1a:00.0"},
       {"hides an HCA",
        [](MadeHost* made) {
          made->write("/sys/class/infiniband/rxe0/parent", "eth0\n");
          std::filesystem::create_symlink("../../devices/pci0000:00/infiniband/mlx5_0",
                                          made->host.path("/sys/class/infiniband/mlx5_0"));
        },
        Verdict::kFailure, "mlx5_0"},
       {"has no PCI device", with_files({{"/sys/class/net/lo/mtu", "65536\n"}}), Verdict::kOk},
       {"not mounted",
        [](MadeHost* made) {
          remove_sysfs(made);
          made->host.is_live = true;
        },
        Verdict::kFailure},
       {"not copied", remove_sysfs, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
