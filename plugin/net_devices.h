// The devices as NCCL numbers them: first the ports of HCAs, then those that NCCL has merged from
// several of them. Their properties, order and names.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/abi/nccl_types.h"
#include "transport/device/hca.h"

namespace gdr::plugin {

// The union of what the versions of NCCL's property struct ask for.
struct DeviceProperties {
  char* name;           // unique among the devices
  char* pci_path;       // absolute sysfs path of a PCI function; null where the device is on none
  uint64_t guid;        // of the card: all its functions may have the same
  int pointer_support;  // abi::kPtr* bits
  int speed_mbps;       // Mb/s
  int port;             // (guid, port) is unique among the devices
  float latency_us;     // microseconds; 0: NCCL uses its own figure
  int max_comms;
  int max_recvs;         // buffers of one grouped receive
  bool force_flush;      // each receive into GPU memory must be flushed, on every generation of GPU
  size_t max_p2p_bytes;  // of one message
  int16_t rail;          // abi::kNetIdUndefined: unknown
  int16_t plane;         // likewise
  int part_count;        // 1, or how many devices were merged into this one
  std::array<int, abi::kMaxMergedDevices> parts;  // their numbers; the first part_count are set
};

// One device, from the verbs library and sysfs.
struct DeviceFacts {
  std::string hca;           // "mlx5_0"
  int port = 1;              // the verbs library's number of the port
  std::string pci_path;      // to report; "" where the device is on no PCI function
  std::string pci_name;      // "0000:3b:00.0", the device's own function; "" likewise
  bool data_direct = false;  // both are of the HCA's Data Direct function
  int numa_node = -1;        // -1: unknown
  uint64_t guid = 0;         // system image GUID; 0: unknown
  int rail = -1;             // the rail's number; -1: unknown
  int plane = -1;            // the user's number of the plane (NCCL_IB_HCA); -1: unknown
  size_t max_message_bytes = 0;
  int speed_mbps = 0;     // Mb/s; 0: unknown, and reported as kAssumedSpeedMbps
  bool ethernet = false;  // RoCE; else InfiniBand
  // RoCE: the version and family of the address that connections use, "RoCE v2, IPv4"; or why the
  // port has none. "" on InfiniBand.
  std::string address;
  bool has_address = true;
  transport::RegistrationPaths gdr = {false, false};
  std::string gdr_text;  // which registration paths there are, or why none: "dma-buf, peermem"
};

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
  // Returns false for an unknown device or a null `properties`. NCCL keeps the pointers:
  // the strings live as long as this object, whatever is merged.
  bool get(int device, DeviceProperties* properties);
  // The ports that a device consists of; empty: there is no such device.
  std::vector<int> parts(int device) const;
  // Returns one line per port for the log. Example:
  //   [0] mlx5_0:1 InfiniBand 400 Gb/s pci 0000:1a:00.0 numa 0 rail 0 GPUDirect dma-buf, peermem
  std::vector<std::string> describe() const;
  std::string describe(int device) const;  // the same of a device that exists

 private:
  // A port, or several that were merged.
  struct Row {
    DeviceFacts facts;
    std::string name;        // as reported, and unique
    int port;                // as reported: (GUID, port) of the ports is unique
    std::vector<int> parts;  // rows: itself for a port
  };
  void add_port(DeviceFacts port);
  void add_merged(std::vector<int> parts);
  int functions_of_card_before(const DeviceFacts& port) const;
  int plane_of(const std::vector<int>& parts) const;
  Status check_ports(std::span<const int> ports, const MergeRules& rules) const;
  Status check_mergeable(std::span<const int> ports, const MergeRules& rules) const;
  int number_of(std::span<const int> ports);
  int row_of(int device) const;

  mutable std::mutex mutex_;  // guards all below
  std::deque<Row> rows_;      // the first ports_ are the ports; its elements never move
  int ports_ = 0;
  std::vector<int> added_;  // added_[i]: the row of device ports_ + i
  size_t in_use_ = 0;       // how many of them were asked for since restart()
};

// Returns which registration paths the HCA offers among the allowed ones, for the log: "dma-buf",
// "dma-buf, peermem", "off: neither dma-buf nor peermem".
std::string gdr_text(const transport::HcaContext& hca, const transport::RegistrationPaths& allowed);

}  // namespace gdr::plugin
