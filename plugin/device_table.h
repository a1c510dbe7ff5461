// What NCCL is told of each device, and in which order.
#pragma once

#include <string>
#include <vector>

#include "transport/hca.h"

namespace gdr::plugin {

struct DeviceProperties;

// By place on the PCI tree, so that all processes of a node agree whatever order the verbs library
// lists devices in; devices without a place come last, by name. Ports of one device stay together.
std::vector<Device> in_pci_order(std::vector<Device> devices);

class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(const std::vector<Device>& devices);

  // False when there is no such device.
  bool get(int device, DeviceProperties* properties);
  // One line per device, for the log.
  std::vector<std::string> describe() const;

 private:
  struct Row {
    std::string name;
    std::string pci_path;  // empty: none
    int numa_node;
    uint64_t guid;
    int port;
    int speed_mbps;
    bool ethernet;
    bool dmabuf;
    bool peermem;
  };
  std::vector<Row> rows_;
};

}  // namespace gdr::plugin
