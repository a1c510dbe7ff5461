#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "transport/device/socket_interface.h"

namespace gdr::transport {
namespace {

using UniqueIfaddrs = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

bool is_up(const ifaddrs& entry) {
  constexpr unsigned kNeeded = IFF_UP | IFF_RUNNING;
  return (entry.ifa_flags & kNeeded) == kNeeded;
}

socklen_t length_of(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// A link-local address means nothing to connect() without the interface it belongs to.
void add_scope(Interface* entry) {
  sockaddr_in6 address{};
  std::memcpy(&address, &entry->address, sizeof(address));
  if (!IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) || address.sin6_scope_id != 0) return;
  address.sin6_scope_id = if_nametoindex(entry->name.c_str());
  std::memcpy(&entry->address, &address, sizeof(address));
}

}  // namespace

Result<std::vector<Interface>> enumerate_interfaces() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) {
    return fail_errno(Code::kSystem, "listing network interfaces failed", errno);
  }
  UniqueIfaddrs owner(head, &freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* item = head; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || !is_up(*item)) continue;
    int family = item->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface entry;
    entry.name = item->ifa_name;
    entry.address_length = length_of(family);
    std::memcpy(&entry.address, item->ifa_addr, entry.address_length);
    if (family == AF_INET6) add_scope(&entry);
    interfaces.push_back(std::move(entry));
  }
  return interfaces;
}

}  // namespace gdr::transport
