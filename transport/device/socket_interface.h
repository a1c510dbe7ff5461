// Which network interface carries the handshake: NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/device/name_list.h"

namespace gdr::transport {

// Grammar: `[^][=]name(,name)*`; names are prefixes unless '=' stands before the list. What follows
// a ':' in a name is ignored, as NCCL does. Unset accepts everything.
class InterfaceFilter {
 public:
  static constexpr size_t kMaxEntries = 16;  // NCCL's

  InterfaceFilter() = default;
  static Result<InterfaceFilter> parse(std::string_view text);

  bool is_set() const { return !list_.entries.empty(); }
  bool accepts(std::string_view name) const;
  const std::vector<std::string>& notes() const { return list_.notes; }
  std::string to_string() const { return list_.to_string(); }

 private:
  NameList list_;
};

// One address of an interface; an interface with several appears several times.
struct Interface {
  std::string name;
  sockaddr_storage address{};  // AF_INET or AF_INET6, port 0
  socklen_t address_length = 0;
};

struct InterfacePreference {
  InterfaceFilter filter;
  int family = AF_UNSPEC;  // NCCL_SOCKET_FAMILY; AF_UNSPEC takes either
};

// The first, in the order given, that the filter accepts; without a filter, of the first of these
// groups that has one: names starting with "ib"; others; "docker"; "lo"; "virbr". Never ::1, which
// no other machine reaches and NCCL skips. Of that interface, an address that is not link-local
// where it has one.
Result<Interface> choose_interface(const std::vector<Interface>& interfaces,
                                   const InterfacePreference& preference);

// Addresses of the interfaces of this machine that are up and running, in the kernel's order.
Result<std::vector<Interface>> enumerate_interfaces();

std::string to_string(const Interface& entry);  // "eth0 192.0.2.1", "eth0 fe80::1%2"

}  // namespace gdr::transport
