#include "plugin/device_table.h"

#include <algorithm>
#include <optional>

#include "plugin/net.h"
#include "topology/sources/sysfs_rdma.h"
#include "transport/gpu/peermem.h"

namespace gdr::plugin {
namespace {

constexpr int kMaxComms = 1 << 20;  // no limit of ours

std::optional<topology::PciPlace> place_of(const Device& device) {
  return topology::pci_place(device.hca->sysfs_path());
}

struct OrderKey {
  bool without_place;
  topology::Bdf bdf;
  size_t name_length;  // mlx5_2 before mlx5_10
  std::string name;
  int port;
  auto operator<=>(const OrderKey&) const = default;
};

OrderKey order_key(const Device& device) {
  std::optional<topology::PciPlace> place = place_of(device);
  return OrderKey{!place.has_value(), place.has_value() ? place->bdf : topology::Bdf{},
                  device.hca->name().size(), device.hca->name(), device.port};
}

}  // namespace

std::vector<Device> in_pci_order(std::vector<Device> devices) {
  std::vector<std::pair<OrderKey, Device>> keyed;
  for (Device& device : devices) keyed.emplace_back(order_key(device), std::move(device));
  std::sort(keyed.begin(), keyed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Device> sorted;
  for (auto& [key, device] : keyed) sorted.push_back(std::move(device));
  return sorted;
}

DeviceTable::DeviceTable(const std::vector<Device>& devices) {
  bool peermem = gpu::peermem_present();
  for (const Device& device : devices) {
    std::optional<topology::PciPlace> place = place_of(device);
    Row row;
    row.name = device.hca->name();
    if (place.has_value()) row.pci_path = place->sysfs_path;
    row.numa_node = place.has_value() ? place->numa_node : -1;
    row.guid = device.hca->guid();
    row.port = device.port;
    row.speed_mbps = device.state.speed_mbps;
    row.ethernet = device.state.ethernet;
    row.dmabuf = device.hca->supports_dmabuf();
    row.peermem = peermem;
    rows_.push_back(std::move(row));
  }
}

bool DeviceTable::get(int device, DeviceProperties* properties) {
  if (device < 0 || static_cast<size_t>(device) >= rows_.size() || properties == nullptr) {
    return false;
  }
  Row& row = rows_[device];
  properties->name = row.name.data();
  properties->pci_path = row.pci_path.empty() ? nullptr : row.pci_path.data();
  properties->guid = row.guid;
  properties->pointer_support =
      abi::kPtrHost | (row.peermem ? abi::kPtrCuda : 0) | (row.dmabuf ? abi::kPtrDmaBuf : 0);
  properties->speed_mbps = row.speed_mbps;
  properties->port = row.port;
  properties->latency_us = 0;  // NCCL then takes its own figure
  properties->max_comms = kMaxComms;
  properties->max_recvs = abi::kMaxRecvs;
  return true;
}

std::vector<std::string> DeviceTable::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    std::string gpu = row.dmabuf ? (row.peermem ? "dma-buf, peermem" : "dma-buf")
                                 : (row.peermem ? "peermem" : "off: neither dma-buf nor peermem");
    lines.push_back(
        "[" + std::to_string(i) + "] " + row.name + ":" + std::to_string(row.port) +
        (row.ethernet ? " RoCE " : " InfiniBand ") + std::to_string(row.speed_mbps / 1000) +
        " Gb/s pci " +
        (row.pci_path.empty() ? "none" : row.pci_path.substr(row.pci_path.rfind('/') + 1)) +
        " numa " + std::to_string(row.numa_node) + " rail " + std::to_string(i) + " GPUDirect " +
        gpu);
  }
  return lines;
}

}  // namespace gdr::plugin
