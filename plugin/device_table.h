// What NCCL is told of each device, and in which order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugin/hcas.h"
#include "topology/sources/sysfs_rdma.h"
#include "transport/device/hca.h"

namespace gdr::plugin {

struct DeviceProperties;

class DeviceTable {
 public:
  DeviceTable() = default;
  // path_of: the PCI path to report for a device at that place.
  using PathOf = std::function<std::string(const topology::PciPlace&)>;
  DeviceTable(const std::vector<transport::Device>& devices,
              const transport::RegistrationPaths& allowed, const PathOf& path_of);

  // False when there is no such device.
  bool get(int device, DeviceProperties* properties);
  // One line per device, for the log.
  std::vector<std::string> describe() const;

 private:
  struct Row {
    std::string name;           // the HCA's
    std::string reported_name;  // differs between the ports of an HCA: NCCL goes by it
    std::string pci_path;       // as reported; empty: none
    std::string pci_name;       // the device's own address
    int numa_node;
    uint64_t guid;
    int port;
    int reported_port;  // differs between the functions of a card, which may all have a port 1
    int rail;
    int speed_mbps;
    bool ethernet;
    GdrSupport offer;
    std::string gpudirect;  // for the log
  };
  int cards_functions_before(const Row& row) const;

  std::vector<Row> rows_;
};

}  // namespace gdr::plugin
