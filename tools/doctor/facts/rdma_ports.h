// The ports of every HCA, as sysfs and verbs show them, and the network interfaces beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/device/gid_selection.h"

namespace gdr::tools::doctor {

struct Host;

// A GID that is in use, with the network interface that it belongs to; "" on InfiniBand.
struct RdmaGid {
  transport::GidEntry entry;
  std::string netdev;
};

// PortInfo:PortState and PortInfo:PortPhysicalState of the InfiniBand Architecture Specification,
// section 14.2.5.6, which sysfs prints as "4: ACTIVE" and "5: LinkUp". 0 is unknown.
enum class LinkState : uint8_t { kUnknown, kDown, kInit, kArmed, kActive, kActiveDefer };
enum class PhysState : uint8_t {
  kUnknown,
  kSleep,
  kPolling,
  kDisabled,
  kTraining,
  kLinkUp,
  kErrorRecovery,
};

const char* to_string(LinkState state);  // "ACTIVE"; "unknown" for kUnknown
const char* to_string(PhysState state);  // "LinkUp"

struct RdmaPort {
  int number = 1;
  LinkState state = LinkState::kUnknown;
  PhysState phys_state = PhysState::kUnknown;
  std::string rate;        // as sysfs has it: "400 Gb/sec (4X NDR)"; "": unknown
  std::string link_layer;  // "InfiniBand", "Ethernet", "Unspecified"; "": unknown
  std::optional<int> lid;
  std::vector<RdmaGid> gids;
  std::vector<std::string> netdevs;        // names, the first is that of the port itself
  std::optional<int> active_mtu, max_mtu;  // bytes of payload; verbs alone has them

  bool is_infiniband() const { return link_layer == "InfiniBand"; }
  bool is_ethernet() const { return link_layer == "Ethernet"; }
  bool is_active() const { return state == LinkState::kActive; }
};

struct RdmaHca {
  std::string name;              // "mlx5_0"
  std::filesystem::path folder;  // in sysfs, or what a verbs library has in its place
  std::string driver;            // of the PCI function: "mlx5_core"; "": none or unknown
  std::string node_type;         // "1: CA", "4: RNIC"
  std::string guid;              // of the node: "946d:ae03:00c0:1234"; "": unknown
  std::string pci;               // "0000:3b:00.0"; "" for a device without a function
  std::string pci_ids;           // "15b3:1021"; "" where unknown
  bool is_virtual = false;       // a device of software above a network interface (rxe, siw)
  std::optional<bool> in_verbs;  // whether libibverbs lists it; nothing: not asked
  std::string open_error;        // why libibverbs could not open it; ""
  int open_errno = 0;            // errno of that; 0: none was given
  std::vector<RdmaPort> ports;   // ascending by number
};

struct Ipv4Address {
  uint32_t address = 0;  // in host byte order
  int prefix_bits = 32;  // 0: unknown
};

// A network interface of the machine.
struct RdmaNetdev {
  std::optional<int> mtu;
  std::optional<bool> is_up;        // set up by the administrator (IFF_UP)
  std::optional<bool> has_carrier;  // unknown for an interface that is not up
  std::vector<Ipv4Address> addresses;
};

struct RdmaPorts {
  std::vector<RdmaHca> hcas;                  // sorted by name
  std::map<std::string, RdmaNetdev> netdevs;  // all of the machine, by name
  std::string verbs_error;                    // why libibverbs was of no use; ""
};

// Reads them; `host` has its root, environment and topology already. Of the machine that it runs on
// it opens each HCA by verbs.
RdmaPorts read_rdma_ports(const Host& host);

// The last part of that, after the HCAs.
void read_rdma_netdevs(const Host& host, RdmaPorts* ports);

// Returns the number at the beginning of a line of sysfs, "4: ACTIVE", or in hexadecimal "0x1f".
std::optional<int> number_in_sysfs(const std::string& text, int base = 10);

std::string to_string(const Ipv4Address& one);  // "10.0.0.1/24"

}  // namespace gdr::tools::doctor
