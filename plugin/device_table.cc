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

// The bit by which NCCL's own transport marks a plane that stands for several, each of which has
// one of the bits below (NCCL_IB_PLANE_VIRT_BIT in src/transport/net_ib/init.cc).
constexpr int kSeveralPlanesBit = 14;

std::string describe_device(const DeviceFacts& device, const std::string& label) {
  return label + (device.ethernet ? " RoCE " : " InfiniBand ") +
         std::to_string(device.speed_mbps / 1000) +
         (device.data_direct ? " Gb/s Data Direct pci " : " Gb/s pci ") +
         (device.pci_name.empty() ? "none" : device.pci_name) + " numa " +
         std::to_string(device.numa_node) + " rail " + std::to_string(device.rail) + " GPUDirect " +
         device.gdr_text;
}

bool is_same(const transport::GdrSupport& a, const transport::GdrSupport& b) {
  return a.dmabuf == b.dmabuf && a.address == b.address;
}

// The registration paths that two devices have in common, in words.
std::string common_text(const transport::GdrSupport& common, const DeviceFacts& one,
                        const DeviceFacts& other) {
  if (is_same(common, one.gdr)) return one.gdr_text;
  if (is_same(common, other.gdr)) return other.gdr_text;
  return "off: no registration path that all of its ports have";
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
  rows_.push_back({std::move(device), std::move(name), port, {static_cast<int>(rows_.size())}});
}

void DeviceTable::add_merged(const std::vector<int>& parts) {
  const Row& first = rows_[parts.front()];
  Row merged{first.facts, first.name, first.port, parts};
  DeviceFacts& facts = merged.facts;
  for (size_t i = 1; i < parts.size(); ++i) {
    const DeviceFacts& other = rows_[parts[i]].facts;
    merged.name += "+" + rows_[parts[i]].name;
    facts.speed_mbps += other.speed_mbps;
    facts.max_message_bytes = std::min(facts.max_message_bytes, other.max_message_bytes);
    facts.data_direct = facts.data_direct || other.data_direct;
    if (facts.rail != other.rail) facts.rail = -1;
    const transport::GdrSupport common{facts.gdr.dmabuf && other.gdr.dmabuf,
                                       facts.gdr.address && other.gdr.address};
    facts.gdr_text = common_text(common, facts, other);
    facts.gdr = common;
  }
  facts.plane = plane_of(parts);
  facts.hca = merged.name;
  rows_.push_back(std::move(merged));
}

// NCCL lets no channel change planes, so that what is merged of several planes is a plane of its
// own.
int DeviceTable::plane_of(const std::vector<int>& parts) const {
  std::set<int> planes;
  for (int part : parts) planes.insert(rows_[part].facts.plane);
  if (planes.size() == 1) return *planes.begin();
  int bits = 1 << kSeveralPlanesBit;
  for (int plane : planes) {
    if (plane < -1 || plane + 1 >= kSeveralPlanesBit) return -1;
    bits |= 1 << (plane + 1);  // -1: no plane
  }
  return bits;
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
  properties->part_count = static_cast<int>(row.parts.size());
  std::copy(row.parts.begin(), row.parts.end(), properties->parts.begin());
  return true;
}

std::vector<std::string> DeviceTable::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows_.size(); ++i) {
    lines.push_back("[" + std::to_string(i) + "] " + describe(i));
  }
  return lines;
}

std::string DeviceTable::describe(size_t row) const {
  const DeviceFacts& facts = rows_[row].facts;
  const bool merged = rows_[row].parts.size() > 1;
  return describe_device(facts, merged ? facts.hca : facts.hca + ":" + std::to_string(facts.port));
}

std::string gdr_text(const transport::HcaContext& hca,
                     const transport::RegistrationPaths& allowed) {
  const transport::GdrSupport support = transport::gdr_support(hca, allowed);
  const std::string module = allowed.peermem ? to_string(hca.peermem()) : "";
  if (support.dmabuf) return module.empty() ? "dma-buf" : "dma-buf, " + module;
  if (support.address) return module;
  return module.empty() ? "off: neither dma-buf nor peermem" : "off: no dma-buf, " + module;
}

}  // namespace gdr::plugin
