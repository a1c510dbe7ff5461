#include "plugin/net_devices.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "plugin/discovery/discovery.h"

namespace gdr::plugin {
namespace {

constexpr int kMaxComms = 1 << 20;  // the plugin has no limit; NCCL writes the number into its XML

// The bit by which NCCL's own transport marks a plane that stands for several, each of which has
// one of the bits below (NCCL_IB_PLANE_VIRT_BIT in src/transport/net_ib/init.cc).
constexpr int kSeveralPlanesBit = 14;

std::string port_text(const DeviceFacts& port) {
  return port.hca + ":" + std::to_string(port.port);
}

// The registration paths that two devices have in common, in words.
std::string common_text(const transport::RegistrationPaths& common, const DeviceFacts& one,
                        const DeviceFacts& other) {
  if (common == one.gdr) return one.gdr_text;
  if (common == other.gdr) return other.gdr_text;
  return "off: no registration path that all of its ports have";
}

int16_t net_id(int number) {
  const bool fits = number >= 0 && number <= std::numeric_limits<int16_t>::max();
  return fits ? static_cast<int16_t>(number) : static_cast<int16_t>(abi::kNetIdUndefined);
}

bool are_same(std::span<const int> a, std::span<const int> b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

const char* link_layer(const DeviceFacts& port) { return port.ethernet ? "RoCE" : "InfiniBand"; }

}  // namespace

NetDevices::NetDevices(std::vector<DeviceFacts> ports) : ports_(static_cast<int>(ports.size())) {
  for (DeviceFacts& port : ports) add_port(std::move(port));
}

void NetDevices::add_port(DeviceFacts device) {
  bool second_port = std::any_of(rows_.begin(), rows_.end(),
                                 [&](const Row& other) { return other.facts.hca == device.hca; });
  std::string name = device.hca + (device.data_direct ? "_dma" : "");  // as net_ib names it
  if (second_port) name += ":" + std::to_string(device.port);
  if (device.speed_mbps <= 0) device.speed_mbps = discovery::kAssumedSpeedMbps;
  int port = device.port + functions_of_card_before(device);
  rows_.push_back({std::move(device), std::move(name), port, {static_cast<int>(rows_.size())}});
}

void NetDevices::add_merged(std::vector<int> parts) {
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
    const transport::RegistrationPaths common = facts.gdr & other.gdr;
    facts.gdr_text = common_text(common, facts, other);
    facts.gdr = common;
  }
  facts.plane = plane_of(parts);
  facts.hca = merged.name;
  rows_.push_back(std::move(merged));
}

// NCCL lets no channel change planes, so that what is merged of several planes is a plane of its
// own.
int NetDevices::plane_of(const std::vector<int>& parts) const {
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
int NetDevices::functions_of_card_before(const DeviceFacts& device) const {
  if (device.guid == 0) return 0;
  std::set<std::string> hcas;
  for (const Row& other : rows_) {
    if (other.facts.guid == device.guid && other.facts.hca != device.hca) {
      hcas.insert(other.facts.hca);
    }
  }
  return static_cast<int>(hcas.size());
}

Result<int> NetDevices::merge(std::span<const int> ports, const MergeRules& rules) {
  std::lock_guard lock(mutex_);
  if (Status status = check_ports(ports, rules); !status) return forward_error(status);
  if (Status status = check_mergeable(ports, rules); !status) {
    for (int port : ports) {
      if (rules.keep_declined) number_of(std::span(&port, 1));
    }
    return forward_error(status);
  }
  return number_of(ports);
}

Status NetDevices::check_ports(std::span<const int> ports, const MergeRules& rules) const {
  if (ports.empty()) return fail(Code::kInvalidArgument, "no device is named");
  if (ports.size() > static_cast<size_t>(rules.most)) {
    return fail(Code::kInvalidArgument, std::to_string(ports.size()) +
                                            " devices are too many to merge: at most " +
                                            std::to_string(rules.most) + " can be");
  }
  std::set<int> different;
  for (int port : ports) {
    const std::string device = "device " + std::to_string(port);
    if (port >= ports_ && row_of(port) >= 0) {
      return fail(Code::kInvalidArgument, device + " is a merged one itself: name its parts");
    }
    if (port < 0 || port >= ports_) {
      return fail(Code::kInvalidArgument, "there is no " + device + "; there are " +
                                              std::to_string(ports_) + " that can be merged");
    }
    if (!different.insert(port).second) {
      return fail(Code::kInvalidArgument, device + " is named twice");
    }
  }
  return {};
}

// NCCL puts a merged device below the PCI function that its ports have in common. Where it finds
// none, 2.27 and later lose the device (ncclTopoGetVNicParent in src/graph/topo.cc).
Status NetDevices::check_mergeable(std::span<const int> ports, const MergeRules& rules) const {
  if (ports.size() == 1) return {};
  if (!rules.allowed) {
    return fail(Code::kDeclined, "devices are not merged, as NCCL_IB_MERGE_NICS=0 asks");
  }
  const DeviceFacts& first = rows_[ports[0]].facts;
  for (int port : ports) {
    const DeviceFacts& facts = rows_[port].facts;
    if (facts.pci_path.empty()) {
      return fail(Code::kDeclined, port_text(facts) +
                                       " is on no PCI function, so that NCCL has no place for a "
                                       "device that it is part of");
    }
    if (facts.ethernet != first.ethernet) {
      return fail(Code::kDeclined, port_text(first) + " (" + link_layer(first) + ") and " +
                                       port_text(facts) + " (" + link_layer(facts) +
                                       ") cannot be merged. Fix: name the ports of one link " +
                                       "layer in NCCL_IB_HCA");
    }
  }
  return {};
}

// Returns the number of the device that consists of these ports, and makes it where it is new.
int NetDevices::number_of(std::span<const int> ports) {
  for (size_t i = 0; i < in_use_; ++i) {
    if (are_same(rows_[added_[i]].parts, ports)) return ports_ + static_cast<int>(i);
  }
  const int rows = static_cast<int>(rows_.size());
  int row = 0;
  while (row < rows && !are_same(rows_[row].parts, ports)) ++row;
  if (row == rows) add_merged({ports.begin(), ports.end()});
  if (in_use_ == added_.size()) added_.push_back(row);
  added_[in_use_] = row;
  return ports_ + static_cast<int>(in_use_++);
}

void NetDevices::restart() {
  std::lock_guard lock(mutex_);
  in_use_ = 0;
}

int NetDevices::count() const {
  std::lock_guard lock(mutex_);
  const bool merged = std::any_of(added_.begin(), added_.begin() + static_cast<ptrdiff_t>(in_use_),
                                  [this](int row) { return rows_[row].parts.size() > 1; });
  return ports_ + (merged ? static_cast<int>(in_use_) : 0);
}

// Returns -1 where there is no such device.
int NetDevices::row_of(int device) const {
  if (device < ports_) return device;
  const size_t index = static_cast<size_t>(device - ports_);
  return index < added_.size() ? added_[index] : -1;
}

bool NetDevices::get(int device, DeviceProperties* properties) {
  std::lock_guard lock(mutex_);
  const int index = row_of(device);
  if (index < 0 || properties == nullptr) return false;
  Row& row = rows_[index];
  DeviceFacts& facts = row.facts;
  properties->name = row.name.data();
  properties->pci_path = facts.pci_path.empty() ? nullptr : facts.pci_path.data();
  properties->guid = facts.guid;
  properties->pointer_support = abi::kPtrHost | (facts.gdr.peermem ? abi::kPtrCuda : 0) |
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

std::vector<int> NetDevices::parts(int device) const {
  std::lock_guard lock(mutex_);
  const int row = row_of(device);
  return row < 0 ? std::vector<int>() : rows_[row].parts;
}

std::vector<std::string> NetDevices::describe() const {
  std::vector<std::string> lines;
  for (int port = 0; port < ports_; ++port) lines.push_back(describe(port));
  return lines;
}

std::string NetDevices::describe(int device) const {
  std::lock_guard lock(mutex_);
  const Row& row = rows_[row_of(device)];
  const DeviceFacts& facts = row.facts;
  return "[" + std::to_string(device) + "] " +
         (row.parts.size() > 1 ? facts.hca : port_text(facts)) +
         (facts.ethernet ? " RoCE " : " InfiniBand ") + std::to_string(facts.speed_mbps / 1000) +
         (facts.data_direct ? " Gb/s Data Direct pci " : " Gb/s pci ") +
         (facts.pci_name.empty() ? "none" : facts.pci_name) + " numa " +
         std::to_string(facts.numa_node) + " rail " + std::to_string(facts.rail) + " GPUDirect " +
         facts.gdr_text;
}

std::string gdr_text(const transport::HcaContext& hca,
                     const transport::RegistrationPaths& allowed) {
  const transport::RegistrationPaths support = transport::gdr_support(hca, allowed);
  const std::string module = allowed.peermem ? to_string(hca.peermem()) : "";
  if (support.dmabuf) return module.empty() ? "dma-buf" : "dma-buf, " + module;
  if (support.peermem) return module;
  return module.empty() ? "off: neither dma-buf nor peermem" : "off: no dma-buf, " + module;
}

}  // namespace gdr::plugin
