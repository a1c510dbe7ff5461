#include "plugin/net_devices.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gdr::plugin {
namespace {

bool are_same(std::span<const int> a, std::span<const int> b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

const char* link_layer(const DeviceFacts& port) { return port.ethernet ? "RoCE" : "InfiniBand"; }

}  // namespace

NetDevices::NetDevices(std::vector<DeviceFacts> ports)
    : table_(std::move(ports)), ports_(static_cast<int>(table_.size())) {}

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
  const DeviceFacts& first = table_.facts(ports[0]);
  for (int port : ports) {
    const DeviceFacts& facts = table_.facts(port);
    if (facts.pci_path.empty()) {
      return fail(Code::kDeclined, text_of(port) +
                                       " is on no PCI function, so that NCCL has no place for a "
                                       "device that it is part of");
    }
    if (facts.ethernet != first.ethernet) {
      return fail(Code::kDeclined, text_of(ports[0]) + " (" + link_layer(first) + ") and " +
                                       text_of(port) + " (" + link_layer(facts) +
                                       ") cannot be merged. Fix: name the ports of one link " +
                                       "layer in NCCL_IB_HCA");
    }
  }
  return {};
}

std::string NetDevices::text_of(int port) const {
  const DeviceFacts& facts = table_.facts(port);
  return facts.hca + ":" + std::to_string(facts.port);
}

// Returns the number of the device that consists of these ports, and makes it where it is new.
int NetDevices::number_of(std::span<const int> ports) {
  for (size_t i = 0; i < in_use_; ++i) {
    if (are_same(table_.parts(added_[i]), ports)) return ports_ + static_cast<int>(i);
  }
  const int rows = static_cast<int>(table_.size());
  int row = 0;
  while (row < rows && !are_same(table_.parts(row), ports)) ++row;
  if (row == rows) table_.add_merged({ports.begin(), ports.end()});
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
                                  [this](int row) { return table_.parts(row).size() > 1; });
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
  return table_.get(row_of(device), properties);
}

std::vector<int> NetDevices::parts(int device) const {
  std::lock_guard lock(mutex_);
  const int row = row_of(device);
  return row < 0 ? std::vector<int>() : table_.parts(row);
}

std::vector<std::string> NetDevices::describe() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> lines = table_.describe();
  lines.resize(ports_);
  return lines;
}

std::string NetDevices::describe(int device) const {
  std::lock_guard lock(mutex_);
  return "[" + std::to_string(device) + "] " + table_.describe(row_of(device));
}

}  // namespace gdr::plugin
