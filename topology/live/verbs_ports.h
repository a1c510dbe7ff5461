// The HCA ports that the verbs library lists, put on the machine's PCI tree. Sources such as hwloc
// list HCAs too, but only the verbs library knows which of them this process can open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// One port of an HCA, from the verbs library.
struct VerbsPort {
  std::string hca;         // "mlx5_0" (ibv_get_device_name)
  std::string sysfs_path;  // ibv_device::ibdev_path
  // The PCI function in sysfs by which the HCA accesses GPU memory, where that is not its own (Data
  // Direct of mlx5); the HCA then stands there on the PCI tree. "" else.
  std::string data_path;
  uint64_t guid = 0;       // system image GUID; 0: unknown
  int number = 1;          // counted from 1
  bool active = false;     // IBV_PORT_ACTIVE
  bool ethernet = false;   // RoCE; else InfiniBand
  int speed_mbps = 0;      // Mb/s over all lanes; 0: unknown
  bool gpudirect = false;  // the HCA can register GPU memory, by dma-buf or peermem
};

// Replaces the machine's HCAs by those of `ports` (in any order, several ports of one HCA) and
// sorts the machine. An HCA that the machine's source listed keeps what the source knows of PCI;
// one that is on no visible PCI function is attached as NCCL does, see attach_without_pci().
void replace_hcas(Machine* machine, const std::vector<VerbsPort>& ports);

// Removes the ports for which accepts(HCA, port's number) is false, and HCAs without ports.
void keep_accepted(Machine* machine, const std::function<bool(const Hca&, int)>& accepts);

}  // namespace gdr::topology
