#include <cerrno>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

using Files = std::vector<DeviceFile>;

// RDMA devices mlx5_0, mlx5_1 ... with their uverbs, and what opening these gave.
auto devices(int count, std::optional<Files> files, Container container = Container::kNone) {
  return [=](MadeHost* made) {
    for (int i = 0; i < count; ++i) {
      const std::string device = "mlx5_" + std::to_string(i);
      made->write("/sys/class/infiniband/" + device + "/node_type", "1: CA\n");
      made->write("/sys/class/infiniband_verbs/uverbs" + std::to_string(i) + "/ibdev",
                  device + "\n");
    }
    made->host.process.uverbs = files;
    made->host.process.container = container;
  };
}

TEST(DeviceFiles, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "device-files",
      {{"opens", devices(1, Files{{"uverbs0", 0}}), Verdict::kOk},
       {"absent from a container", devices(1, Files{}, Container::kDocker), Verdict::kFailure,
        "mlx5_0", "", "start the container with --device=/dev/infiniband"},
       {"one of two in a container", devices(2, Files{{"uverbs1", 0}}, Container::kKubernetes),
        Verdict::kOk},
       {"one of two on a machine", devices(2, Files{{"uverbs1", 0}}), Verdict::kFailure, "mlx5_0",
        "", "udevadm trigger --subsystem-match=infiniband_verbs"},
       {"denied to the user", devices(1, Files{{"uverbs0", EACCES}}), Verdict::kFailure, "",
        "/dev/infiniband/uverbs0 cannot be opened: Permission denied (errno 13)", "MODE=\"0666\""},
       {"denied by the device cgroup", devices(1, Files{{"uverbs0", EPERM}}, Container::kPodman),
        Verdict::kFailure, "", "device cgroup"},
       {"without uverbs",
        [](MadeHost* made) { made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"); },
        Verdict::kFailure, "", "", "", "modprobe ib_uverbs / modprobe -r ib_uverbs"},
       {"one device without uverbs",
        [](MadeHost* made) {
          devices(1, Files{{"uverbs0", 0}})(made);
          made->write("/sys/class/infiniband/mlx5_1/node_type", "1: CA\n");
        },
        Verdict::kWarning, "mlx5_1"},
       {"of another machine", devices(1, {}), Verdict::kUnknown},
       {"no device", [](MadeHost*) {}, Verdict::kNothing}});
}

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
