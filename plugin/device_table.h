// What NCCL is told of each device, and in which order.
#pragma once

#include <string>
#include <vector>

#include "transport/hca.h"

namespace gdr::plugin {

struct DeviceProperties;

class DeviceTable {
 public:
  DeviceTable() = default;
  // merge_functions: NCCL_IB_MERGE_VFS.
  DeviceTable(const std::vector<Device>& devices, bool merge_functions);

  // False when there is no such device.
  bool get(int device, DeviceProperties* properties);
  // One line per device, for the log.
  std::vector<std::string> describe() const;

 private:
  struct Row {
    std::string name;
    std::string pci_path;  // as reported; empty: none
    std::string pci_name;  // the device's own address
    int numa_node;
    uint64_t guid;
    int port;
    int reported_port;  // differs between the functions of a card, which may all have a port 1
    int rail;
    int speed_mbps;
    bool ethernet;
    bool dmabuf;
    bool peermem;
  };
  int functions_before(const Row& row) const;

  std::vector<Row> rows_;
};

}  // namespace gdr::plugin
