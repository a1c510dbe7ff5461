#include <cerrno>

#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// Adds a network function, with that driver if it is not empty.
void add_function(MadeFabric* made, const std::string& address, const std::string& driver,
                  const std::string& vendor = "0x15b3", const char* device_class = "0x020700") {
  const std::string folder = "/sys/devices/pci0000:3a/" + address;
  made->write(folder + "/vendor", vendor + "\n");
  made->write(folder + "/device", "0x1021\n");
  made->write(folder + "/class", device_class);
  made->link("/sys/bus/pci/devices/" + address, folder);
  if (!driver.empty()) made->link(folder + "/driver", "/sys/bus/pci/drivers/" + driver);
}

// Such a function alone, beside these loaded modules.
auto function_of(const char* driver, bool has_gpus, std::vector<std::string> modules = {},
                 Container container = Container::kNone) {
  return [=](MadeFabric* made) {
    if (has_gpus) made->add_rails();
    add_function(made, "0000:3b:00.0", driver);
    for (const std::string& one : modules) made->write("/sys/module/" + one + "/refcnt", "1\n");
    made->host.process.container = container;
  };
}

// A machine with an HCA, without a GPU, and with NVIDIA's driver where it has lost them.
auto without_gpus(bool has_driver) {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    made->add_rails();
    made->host.inspection->decision.machine.gpus.clear();
    if (has_driver) made->write("/proc/driver/nvidia/version", "NVRM version: 570.86.15\n");
  };
}

auto gpus_in_container(const char* vendor_of_network) {
  return [=](MadeFabric* made) {
    made->add_rails();
    made->host.process.container = Container::kDocker;
    add_function(made, "0000:3b:00.0", "", vendor_of_network);
  };
}

// An RDMA device at 0000:3b:00.0 and a function of its model elsewhere.
auto beside_device(const char* address, const char* driver, std::vector<std::string> modules = {},
                   const char* device_class = "0x020700") {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    made->hca(0).pci = "0000:3b:00.0";
    add_function(made, address, driver, "0x15b3", device_class);
    for (const std::string& one : modules) made->write("/sys/module/" + one + "/refcnt", "1\n");
  };
}

// A function of another model than the RDMA device, on a machine with GPUs, of which some are far
// from their rails where it `lacks` an HCA.
auto beside_storage(const char* driver, const char* device_class = "0x020000", bool lacks = false,
                    const char* node_type = "1: CA") {
  return [=](MadeFabric* made) {
    beside_device("0000:3c:00.0", driver, {"mlx5_core", "mlx5_ib"}, device_class)(made);
    made->add_rails();
    made->hca(0).pci_ids = "15b3:a2dc";
    made->hca(0).node_type = node_type;
    topology::Machine machine = machine_of(made->host);
    if (!lacks) return;
    for (topology::Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
    machine.hcas.erase(machine.hcas.begin());
    made->host.inspection->decision = topology::scene_of(machine);
  };
}

// An Elastic Fabric Adapter as in Amazon's images, with NCCL_NET_PLUGIN where it is set.
auto efa(bool has_default_plugin, const char* plugin = "") {
  return [=](MadeFabric* made) {
    made->add_roce().link_layer = "Unspecified";
    made->hca(0).node_type = "7: unspecified";
    made->hca(0).pci_ids = "1d0f:efa2";
    if (has_default_plugin) {
      made->host.libraries.default_plugin.emplace_back().file = "libnccl-net.so";
    }
    if (*plugin != 0) made->host.environment["NCCL_NET_PLUGIN"] = plugin;
  };
}

auto iwarp(bool is_named, bool has_other) {
  return [=](MadeFabric* made) {
    made->add_roce();
    made->hca(0).node_type = "4: RNIC";
    if (is_named) made->host.environment["NCCL_IB_HCA"] = made->hca(0).name;
    if (has_other) made->add_infiniband();
  };
}

auto open_fails(const char* text, int error) {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    made->hca(0).open_error = text;
    made->hca(0).open_errno = error;
  };
}

// Two HCAs, of which verbs does not list the first one, and what opening their files gave.
auto unlisted(std::vector<DeviceFile> uverbs, Container container = Container::kNone,
              const char* filter = "") {
  return [=](MadeFabric* made) {
    made->add_infiniband();
    made->add_infiniband();
    made->hca(0).in_verbs = false;
    made->write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    made->write("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
    made->host.process.uverbs = uverbs;
    made->host.process.container = container;
    if (*filter != 0) made->host.environment["NCCL_IB_HCA"] = filter;
  };
}

TEST(RdmaDevices, EachCase_HasItsVerdict) {
  const std::string load_ib = "modprobe mlx5_ib";
  expect_worst<MadeFabric>(
      "rdma-devices",
      {{"opened", [](MadeFabric* made) { made->add_infiniband(); }, Verdict::kOk, "",
        "mlx5_core, 1 port"},
       {"EFA alone", efa(false), Verdict::kFailure, "",
        "has no reliable connections. This plugin does", "aws-ofi-nccl"},
       {"EFA with its plugin", efa(true), Verdict::kOk},
       {"EFA with this plugin", efa(true, "gdr"), Verdict::kFailure},
       {"EFA with a plugin by name", efa(true, "ofi"), Verdict::kOk},
       {"iWARP beside an HCA", iwarp(false, true), Verdict::kOk},
       {"iWARP alone", iwarp(false, false), Verdict::kFailure},
       {"iWARP that is named", iwarp(true, false), Verdict::kOk},
       {"no HCA", [](MadeFabric*) {}, Verdict::kUnknown, "", "this machine has no RDMA device"},
       {"GPUs and no HCA", [](MadeFabric* made) { made->add_rails(); }, Verdict::kFailure, "",
        "this machine has GPUs, but has no RDMA device", "by design"},
       {"GPUs of a site's NCCL_TOPO_FILE",
        [](MadeFabric* made) {
          made->add_rails();
          made->host.inspection->decision.machine.nccl_file = true;
        },
        Verdict::kUnknown},
       {"HCA without GPUs", without_gpus(false), Verdict::kWarning, "", "shows no GPU"},
       {"HCA whose GPUs are lost", without_gpus(true), Verdict::kFailure, "", "shows no GPU"},
       {"GPUs in a container, Broadcom's network", gpus_in_container("0x14e4"), Verdict::kUnknown},
       {"GPUs in a container, virtual network", gpus_in_container("0x1af4"), Verdict::kFailure},
       {"no /sys", [](MadeFabric* made) { std::filesystem::remove_all(made->host.path("/sys")); },
        Verdict::kUnknown, "", "there is no /sys/class"},
       {"function without a driver", function_of("", true), Verdict::kFailure,
        "0000:3b:00.0 (15b3:1021)", "", "modprobe mlx5_core"},
       {"function without its module", function_of("mlx5_core", true, {"mlx5_core"}),
        Verdict::kFailure, "", "", "", load_ib},
       {"function in a container",
        function_of("mlx5_core", true, {"mlx5_core"}, Container::kDocker), Verdict::kUnknown, "",
        "", "run it on the machine itself", ""},
       {"function of a virtual machine", function_of("vfio-pci", false), Verdict::kOk},
       {"function without GPUs", function_of("mlx5_core", false), Verdict::kWarning},
       {"peer where modules are unknown", beside_device("0000:3c:00.0", "mlx5_core"),
        Verdict::kWarning, "", "", "", ""},
       {"peer without its module", beside_device("0000:3c:00.0", "mlx5_core", {"mlx5_core"}),
        Verdict::kWarning, "", "", "", load_ib},
       {"InfiniBand peer with its module",
        beside_device("0000:3c:00.0", "mlx5_core", {"mlx5_core", "mlx5_ib"}), Verdict::kWarning, "",
        "(/sys/class/infiniband): mlx5_ib is loaded", "look in dmesg for errors of mlx5_core", ""},
       {"Ethernet peer with its module",
        beside_device("0000:3c:00.0", "mlx5_core", {"mlx5_core", "mlx5_ib"}, "0x020000"),
        Verdict::kWarning, "", "mlx5_ib is loaded, and RDMA may be disabled",
        "devlink dev param set pci/0000:3c:00.0", ""},
       {"peer without a driver", beside_device("0000:3c:00.0", ""), Verdict::kWarning,
        "0000:3c:00.0 (15b3:1021)"},
       {"no driver beside storage", beside_storage(""), Verdict::kWarning,
        "0000:3c:00.0 (15b3:1021)", "the HCA has no driver"},
       {"no driver, and a GPU far from its rail", beside_storage("", "0x020000", true),
        Verdict::kFailure},
       {"InfiniBand beside storage", beside_storage("mlx5_core", "0x020700"), Verdict::kWarning},
       {"Ethernet beside storage", beside_storage("mlx5_core"), Verdict::kOk},
       {"virtual machine's, beside storage", beside_storage("vfio-pci"), Verdict::kOk},
       {"no driver beside iWARP", beside_storage("", "0x020000", false, "4: RNIC"),
        Verdict::kFailure, "0000:3c:00.0 (15b3:1021)", "the HCA has no driver"},
       {"no RDMA beside iWARP", beside_storage("mlx5_core", "0x020000", false, "4: RNIC"),
        Verdict::kFailure, "0000:3c:00.0 (15b3:1021)", "RDMA may be disabled"},
       {"bonded port", beside_device("0000:3b:00.1", "mlx5_core"), Verdict::kOk},
       {"unusable library",
        [](MadeFabric* made) {
          made->add_infiniband();
          made->host.ports.verbs_error = "libibverbs.so.1: cannot open shared object file";
        },
        Verdict::kFailure, "", "", "libibverbs1"},
       {"not opened", open_fails("Permission denied", EACCES), Verdict::kFailure, "",
        "Permission denied", "MODE=\"0666\""},
       {"dead", open_fails("Input/output error", EIO), Verdict::kFailure, "", "",
        "look in dmesg for the HCA's driver; reset or replace the HCA"},
       {"not listed", unlisted({{"uverbs0", 0}, {"uverbs1", 0}}), Verdict::kFailure, "mlx5_0",
        "libibverbs does not list it", "ibverbs-providers"},
       {"without its file", unlisted({{"uverbs1", 0}}), Verdict::kFailure, "mlx5_0",
        "/dev/infiniband/uverbs0 does not exist", "udevadm trigger"},
       {"without its file in a container", unlisted({}, Container::kDocker), Verdict::kFailure,
        "mlx5_0", "", "start the container with --device=/dev/infiniband"},
       {"withheld from a container", unlisted({{"uverbs1", 0}}, Container::kKubernetes),
        Verdict::kOk},
       {"withheld from a job", unlisted({{"uverbs0", EPERM}, {"uverbs1", 0}}), Verdict::kOk},
       {"listed and withheld from a job",
        [](MadeFabric* made) {
          unlisted({{"uverbs0", EPERM}, {"uverbs1", 0}})(made);
          made->hca(0).in_verbs = true;
          made->hca(0).open_error = "Operation not permitted";
          made->hca(0).open_errno = EPERM;
        },
        Verdict::kOk},
       {"excluded", unlisted({{"uverbs1", 0}}, Container::kNone, "=mlx5_1"), Verdict::kOk, "mlx5_0",
        "NCCL_IB_HCA excludes it"}});
}

}  // namespace
}  // namespace gdr::tools::doctor
