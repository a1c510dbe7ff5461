// The choice of the network interface for the TCP handshake: NCCL_SOCKET_IFNAME and
// NCCL_SOCKET_FAMILY.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plugin/discovery/name_list.h"

namespace gdr::config {

// A list of interfaces in the grammar of name_list.h, `[^][=]name(,name)*`: "eth,ib" accepts
// interfaces whose name starts with "eth" or "ib", "=eth0" only eth0, "^docker" all but Docker's. A
// ':' in a name and what follows it are ignored, as in NCCL. An unset or empty variable accepts
// every interface.
class InterfaceFilter {
 public:
  InterfaceFilter() = default;  // accepts every interface
  // kInvalidUsage if it has one character, which NCCL ignores. Where nothing can be read, no
  // interface is accepted, as in NCCL, whose communicators fail then; notes() has the error.
  static Result<InterfaceFilter> parse(std::string_view text);

  bool is_set() const { return list_.is_set; }
  bool accepts(std::string_view name) const;
  // What could not be read, for the user.
  Findings notes() const { return list_.notes("interface"); }
  std::string to_string() const { return list_.to_string(); }

 private:
  discovery::NameList list_;
};

// One address of a network interface. An interface with several addresses appears several times.
struct Interface {
  std::string name;
  sockaddr_storage address{};  // AF_INET or AF_INET6, port 0
};

struct InterfacePreference {
  InterfaceFilter filter;
  int family = AF_UNSPEC;  // NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, or AF_UNSPEC for either
};

// Chooses an interface and one of its addresses. With a filter, the first interface, in the order
// given, that it accepts. Without one, the first whose name starts with "ib", else one with any
// other name, else one of "docker", else of "lo", else of "virbr": NCCL's order. The IPv6 loopback
// address is skipped, as in NCCL, since no other machine can connect to it. An address that is not
// link-local is preferred. kInvalidUsage with a list of the interfaces if none fits.
Result<Interface> choose_interface(const std::vector<Interface>& interfaces,
                                   const InterfacePreference& preference);

// Lists the addresses of this machine's interfaces that are up and running, in the kernel's order.
Result<std::vector<Interface>> enumerate_interfaces();

std::string to_string(const Interface& entry);  // "eth0 192.0.2.1", "eth0 fe80::1%eth0"

}  // namespace gdr::config
