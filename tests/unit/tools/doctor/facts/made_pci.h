// A machine with one switch, for the tests of the checks of PCIe: GPU0 is below its first port and
// mlx5_0, the GPU's rail, below its second one. sysfs shows both, and NCCL uses GPUDirect RDMA.
#pragma once

#include <string>
#include <utility>

#include "tests/unit/tools/doctor/checked_machine.h"
#include "tests/unit/topology/sources/config_space.h"

namespace gdr::tools::doctor {

inline constexpr char kMadeGpuPort[] = "0000:19:00.0";
inline constexpr char kMadeHcaPort[] = "0000:19:01.0";
inline constexpr char kMadeGpu[] = "0000:1a:00.0";
inline constexpr char kMadeHca[] = "0000:1b:00.0";
inline constexpr char kMadeSwitch[] = "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0/";

inline topology::Machine one_switch() {
  topology::Machine machine = topology::two_sockets();
  machine.cpu = {"x86_64", "GenuineIntel", 6, 143};
  machine.host_bridges = {topology::HostBridge{0, 0x17}};
  topology::Attachment at{-1, 0, 0};
  at.parent = topology::add_switch(&machine, topology::bdf_of(0x18), at);
  machine.gpus = {topology::make_gpu(topology::bdf_of(0x1a), at)};
  machine.hcas = {topology::make_hca("mlx5_0", topology::bdf_of(0x1b), at)};
  machine.hcas[0].gpudirect = true;
  return machine;
}

class MadePci : public MadeHost {
 public:
  explicit MadePci(topology::Machine machine = one_switch()) {
    set(std::move(machine));
    for (const auto& [port, device] :
         {std::pair{kMadeGpuPort, kMadeGpu}, std::pair{kMadeHcaPort, kMadeHca}}) {
      const std::string folder = std::string(kMadeSwitch) + port + "/" + device;
      link(std::string("/sys/bus/pci/devices/") + device, folder);
      group(device, "");
      config(port, topology::config_space({}));
      config(device, topology::config_space({}));
    }
    write("/sys/kernel/hostname", "");
    write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n");
    write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n");
  }

  void set(topology::Machine machine) {
    host.pci_states = good_states(machine);
    host.inspection = topo::Inspection{.decision = topology::scene_of(std::move(machine))};
  }
  topology::Machine& machine() { return host.inspection->decision.machine; }

  // The configuration space of a port or of the device below it.
  void config(const std::string& address, const std::string& bytes) {
    write(folder_of(address) + "/config", bytes);
  }
  // The type of the device's IOMMU group; "" takes it out of its group.
  void group(const std::string& address, const std::string& type) {
    const std::string link_to_group = folder_of(address) + "/iommu_group";
    std::filesystem::remove(host.path(link_to_group));
    if (type.empty()) return;
    const std::string number = address == kMadeGpu ? "7" : "8";
    write("/sys/kernel/iommu_groups/" + number + "/type", type + "\n");
    link(link_to_group, "/sys/kernel/iommu_groups/" + number);
  }
  void make_virtual() { write("/proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n"); }

 private:
  static std::string folder_of(const std::string& address) {
    if (address == kMadeGpu) return std::string(kMadeSwitch) + kMadeGpuPort + "/" + address;
    if (address == kMadeHca) return std::string(kMadeSwitch) + kMadeHcaPort + "/" + address;
    return kMadeSwitch + address;
  }
};

}  // namespace gdr::tools::doctor
