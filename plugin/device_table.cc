#include "plugin/device_table.h"

#include <algorithm>
#include <optional>
#include <set>

#include "plugin/net.h"

namespace gdr::plugin {
namespace {

constexpr int kMaxComms = 1 << 20;  // no limit of ours

std::optional<topology::PciPlace> place_of(const transport::Device& device) {
  return topology::pci_place(device.hca->sysfs_path());
}

// By which ways the device registers GPU memory.
std::string gpudirect_text(const transport::HcaContext& hca,
                           const transport::RegistrationPaths& allowed) {
  if (allowed.only_staging()) return "replaced by staging, as GDR_NCCL_GPU_MEMORY asks";
  GdrSupport offer = gdr_support(hca, allowed);
  std::string module = allowed.peermem ? to_string(hca.peermem()) : "";
  if (offer.dmabuf) return module.empty() ? "dma-buf" : "dma-buf, " + module;
  if (offer.address) return module;
  return module.empty() ? "off: neither dma-buf nor peermem" : "off: no dma-buf, " + module;
}

}  // namespace

DeviceTable::DeviceTable(const std::vector<transport::Device>& devices,
                         const transport::RegistrationPaths& allowed, const PathOf& path_of) {
  for (const transport::Device& device : devices) {
    std::optional<topology::PciPlace> place = place_of(device);
    Row row;
    row.name = device.hca->name();
    if (place.has_value()) {
      row.pci_path = path_of(*place);
      row.pci_name = place->bdf.to_string();
    }
    row.numa_node = place.has_value() ? place->numa_node : -1;
    row.guid = device.hca->guid();
    row.port = device.port;
    row.reported_port = device.port + cards_functions_before(row);
    bool another_port = std::any_of(rows_.begin(), rows_.end(),
                                    [&](const Row& other) { return other.name == row.name; });
    row.reported_name = another_port ? row.name + ":" + std::to_string(row.port) : row.name;
    row.rail = device.rail;
    row.speed_mbps = device.state.speed_mbps;
    row.ethernet = device.state.ethernet;
    row.offer = gdr_support(*device.hca, allowed);
    row.gpudirect = gpudirect_text(*device.hca, allowed);
    rows_.push_back(std::move(row));
  }
}

// HCAs of the same card that come first: (guid, port) has to tell ports apart for NCCL, and the
// functions of a card may all have the guid of the card and a port 1.
int DeviceTable::cards_functions_before(const Row& row) const {
  if (row.guid == 0) return 0;
  std::set<std::string> names;
  for (const Row& other : rows_) {
    if (other.guid == row.guid && other.name != row.name) names.insert(other.name);
  }
  return static_cast<int>(names.size());
}

bool DeviceTable::get(int device, DeviceProperties* properties) {
  if (device < 0 || static_cast<size_t>(device) >= rows_.size() || properties == nullptr) {
    return false;
  }
  Row& row = rows_[device];
  properties->name = row.reported_name.data();
  properties->pci_path = row.pci_path.empty() ? nullptr : row.pci_path.data();
  properties->guid = row.guid;
  properties->pointer_support = abi::kPtrHost | (row.offer.address ? abi::kPtrCuda : 0) |
                                (row.offer.dmabuf ? abi::kPtrDmaBuf : 0);
  properties->speed_mbps = row.speed_mbps;
  properties->port = row.reported_port;
  properties->latency_us = 0;  // NCCL then takes its own figure
  properties->max_comms = kMaxComms;
  properties->max_recvs = abi::kMaxRecvs;
  return true;
}

std::vector<std::string> DeviceTable::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    lines.push_back("[" + std::to_string(i) + "] " + row.name + ":" + std::to_string(row.port) +
                    (row.ethernet ? " RoCE " : " InfiniBand ") +
                    std::to_string(row.speed_mbps / 1000) + " Gb/s pci " +
                    (row.pci_name.empty() ? "none" : row.pci_name) + " numa " +
                    std::to_string(row.numa_node) + " rail " + std::to_string(row.rail) +
                    " GPUDirect " + row.gpudirect);
  }
  return lines;
}

}  // namespace gdr::plugin
