// The properties, order and names of the devices that NCCL sees.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

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
  transport::GdrSupport gdr;
  std::string gdr_text;  // which registration paths there are, or why none: "dma-buf, peermem"
};

// What is reported about devices. A row is a port of an HCA or several that were merged; names are
// made unique, and so are (GUID, port) of the ports.
class DeviceTable {
 public:
  DeviceTable() = default;
  // devices[i] is row i.
  explicit DeviceTable(std::vector<DeviceFacts> devices);

  // Appends a row. The strings of those before stay where they are.
  void add(DeviceFacts device);
  // Appends a row for what consists of several ports, by their rows: the names joined by "+", as
  // NCCL has them, the sum of the speeds, what all of them can do, and the place of the first.
  void add_merged(const std::vector<int>& parts);

  size_t size() const { return rows_.size(); }
  const DeviceFacts& facts(size_t row) const { return rows_[row].facts; }
  const std::string& name(size_t row) const { return rows_[row].name; }
  // The rows that a row consists of: itself for a port.
  const std::vector<int>& parts(size_t row) const { return rows_[row].parts; }

  // Returns false where there is no such row or `properties` is null. NCCL keeps the pointers: the
  // strings live as long as this table, whatever is added to it, and also after it was moved.
  bool get(int row, DeviceProperties* properties);

  // Returns one line per device for the log. Example:
  //   [0] mlx5_0:1 InfiniBand 400 Gb/s pci 0000:1a:00.0 numa 0 rail 0 GPUDirect dma-buf, peermem
  std::vector<std::string> describe() const;
  // The same for one row without its number: "mlx5_0:1 InfiniBand 400 Gb/s ...".
  std::string describe(size_t row) const;

 private:
  struct Row {
    DeviceFacts facts;
    std::string name;  // as reported
    int port;          // as reported
    std::vector<int> parts;
  };
  int functions_of_card_before(const DeviceFacts& device) const;
  int plane_of(const std::vector<int>& parts) const;

  std::deque<Row> rows_;  // its elements never move
};

// Returns which registration paths the HCA offers among the allowed ones, for the log: "dma-buf",
// "dma-buf, peermem", "off: neither dma-buf nor peermem".
std::string gdr_text(const transport::HcaContext& hca, const transport::RegistrationPaths& allowed);

}  // namespace gdr::plugin
