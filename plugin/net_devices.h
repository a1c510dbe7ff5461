// The devices as NCCL numbers them: first the ports of HCAs, then those that NCCL has merged from
// several of them.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/device_table.h"

namespace gdr::plugin {

// NCCL's side of it, in src/graph/topo.cc and src/plugin/net.cc:
// - Once per load of the plugin it counts the devices, calls makeVDevice for those that it wants to
//   merge, counts again, and takes what was added for the merged ones. It ignores the number that
//   makeVDevice returns, so that the numbers have to follow those of the ports without a gap.
// - It goes on using numbers without a further makeVDevice: for later communicators, and up to 2.27
//   also after it has unloaded the plugin and loaded it again.
// - 2.24 to 2.26 no longer use any port by its own number once something was added, so they also
//   call makeVDevice for each port that is merged with no other. Later releases do not.
//
// Thread-safe.
class NetDevices {
 public:
  NetDevices() = default;
  // ports[i] is device i.
  explicit NetDevices(std::vector<DeviceFacts> ports);

  struct MergeRules {
    int most =
        abi::kMaxMergedDevices;  // ports of a merged device: what the version of the table has
    bool allowed = true;         // NCCL_IB_MERGE_NICS
    // NCCL 2.24 to 2.26 lose the ports of a merge that fails where another one succeeds: add each
    // as a device of its own then.
    bool keep_declined = false;
  };

  // Merges ports and returns the number of the device; for the same ports it is the same. A single
  // port gets a second number, which counts only beside a merged device. Fails with
  // kInvalidArgument where a port does not exist, and with kDeclined where they cannot be merged.
  Result<int> merge(std::span<const int> ports, const MergeRules& rules);

  // NCCL has loaded the plugin anew: count() is that of the ports again. All numbers stay valid
  // until merge() gives them away again.
  void restart();

  int count() const;  // the devices that NCCL has to know of
  // As DeviceTable::get(), by NCCL's number.
  bool get(int device, DeviceProperties* properties);
  // The ports that a device consists of; empty: there is no such device.
  std::vector<int> parts(int device) const;
  std::vector<std::string> describe() const;  // the ports
  std::string describe(int device) const;     // of a device that exists

 private:
  Status check_ports(std::span<const int> ports, const MergeRules& rules) const;
  Status check_mergeable(std::span<const int> ports, const MergeRules& rules) const;
  std::string text_of(int port) const;
  int number_of(std::span<const int> ports);
  int row_of(int device) const;

  mutable std::mutex mutex_;  // guards all below
  DeviceTable table_;         // its first ports_ rows are the ports
  int ports_ = 0;
  std::vector<int> added_;  // added_[i]: the row of device ports_ + i
  size_t in_use_ = 0;       // how many of them were asked for since restart()
};

}  // namespace gdr::plugin
