#include "plugin/device_table.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "plugin/abi/nccl_types.h"
#include "transport/device/port_speed.h"

namespace gdr::plugin {
namespace {

constexpr int kMaxComms = 1 << 20;  // the plugin has no limit; NCCL writes the number into its XML

std::string describe_device(size_t index, const DeviceFacts& device) {
  return "[" + std::to_string(index) + "] " + device.hca + ":" + std::to_string(device.port) +
         (device.ethernet ? " RoCE " : " InfiniBand ") + std::to_string(device.speed_mbps / 1000) +
         (device.data_direct ? " Gb/s Data Direct pci " : " Gb/s pci ") +
         (device.pci_name.empty() ? "none" : device.pci_name) + " numa " +
         std::to_string(device.numa_node) + " rail " + std::to_string(device.rail) + " GPUDirect " +
         device.gdr_text;
}

int16_t net_id(int number) {
  const bool fits = number >= 0 && number <= std::numeric_limits<int16_t>::max();
  return fits ? static_cast<int16_t>(number) : static_cast<int16_t>(abi::kNetIdUndefined);
}

}  // namespace

DeviceTable::DeviceTable(std::vector<DeviceFacts> devices) {
  for (DeviceFacts& device : devices) add(std::move(device));
}

void DeviceTable::add(DeviceFacts device) {
  bool second_port = std::any_of(rows_.begin(), rows_.end(),
                                 [&](const Row& other) { return other.facts.hca == device.hca; });
  std::string name = device.hca + (device.data_direct ? "_dma" : "");  // as net_ib names it
  if (second_port) name += ":" + std::to_string(device.port);
  if (device.speed_mbps <= 0) device.speed_mbps = transport::kAssumedSpeedMbps;
  int port = device.port + functions_of_card_before(device);
  rows_.push_back({std::move(device), std::move(name), port});
}

// NCCL distinguishes NICs by (guid, port), and the functions of a card may all report the card's
// GUID and a port 1. So the port is counted on over the HCAs of the same card that precede this
// one.
int DeviceTable::functions_of_card_before(const DeviceFacts& device) const {
  if (device.guid == 0) return 0;
  std::set<std::string> hcas;
  for (const Row& other : rows_) {
    if (other.facts.guid == device.guid && other.facts.hca != device.hca) {
      hcas.insert(other.facts.hca);
    }
  }
  return static_cast<int>(hcas.size());
}

bool DeviceTable::get(int device, DeviceProperties* properties) {
  if (device < 0 || static_cast<size_t>(device) >= rows_.size() || properties == nullptr) {
    return false;
  }
  Row& row = rows_[device];
  DeviceFacts& facts = row.facts;
  properties->name = row.name.data();
  properties->pci_path = facts.pci_path.empty() ? nullptr : facts.pci_path.data();
  properties->guid = facts.guid;
  properties->pointer_support = abi::kPtrHost | (facts.gdr.address ? abi::kPtrCuda : 0) |
                                (facts.gdr.dmabuf ? abi::kPtrDmaBuf : 0);
  properties->speed_mbps = facts.speed_mbps;
  properties->port = row.port;
  properties->latency_us = 0;
  properties->max_comms = kMaxComms;
  properties->max_recvs = abi::kMaxRecvs;
  properties->force_flush = facts.data_direct;
  properties->max_p2p_bytes = std::min(facts.max_message_bytes, abi::kMaxNetBytes);
  properties->rail = net_id(facts.rail);
  properties->plane = net_id(facts.plane);
  return true;
}

std::vector<std::string> DeviceTable::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows_.size(); ++i) lines.push_back(describe_device(i, rows_[i].facts));
  return lines;
}

std::string gdr_text(const transport::HcaContext& hca,
                     const transport::RegistrationPaths& allowed) {
  if (allowed.only_staging()) return "replaced by staging, as GDR_NCCL_GPU_MEMORY asks";
  const transport::GdrSupport support = transport::gdr_support(hca, allowed);
  const std::string module = allowed.peermem ? to_string(hca.peermem()) : "";
  if (support.dmabuf) return module.empty() ? "dma-buf" : "dma-buf, " + module;
  if (support.address) return module;
  return module.empty() ? "off: neither dma-buf nor peermem" : "off: no dma-buf, " + module;
}

}  // namespace gdr::plugin
