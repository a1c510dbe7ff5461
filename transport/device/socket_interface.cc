#include "transport/device/socket_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace gdr::transport {
namespace {

bool starts_with(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

// NCCL's order of preference if the user sets no filter; smaller is better.
int group_of(std::string_view name) {
  if (starts_with(name, "ib")) return 0;
  if (starts_with(name, "docker")) return 2;
  if (starts_with(name, "lo")) return 3;
  if (starts_with(name, "virbr")) return 4;
  return 1;
}

sockaddr_in6 as_ipv6(const Interface& entry) {
  sockaddr_in6 address{};
  std::memcpy(&address, &entry.address, sizeof(address));
  return address;
}

bool is_ipv6_loopback(const Interface& entry) {
  if (entry.address.ss_family != AF_INET6) return false;
  sockaddr_in6 address = as_ipv6(entry);
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

bool is_ipv6_link_local(const Interface& entry) {
  if (entry.address.ss_family != AF_INET6) return false;
  sockaddr_in6 address = as_ipv6(entry);
  return IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
}

bool is_usable(const Interface& entry, const InterfacePreference& preference) {
  int family = entry.address.ss_family;
  if (family != AF_INET && family != AF_INET6) return false;
  if (preference.family != AF_UNSPEC && family != preference.family) return false;
  return !is_ipv6_loopback(entry) && preference.filter.accepts(entry.name);
}

const Interface* first_choice(const std::vector<Interface>& interfaces,
                              const InterfacePreference& preference) {
  const Interface* best = nullptr;
  for (const Interface& entry : interfaces) {
    if (!is_usable(entry, preference)) continue;
    if (best == nullptr) best = &entry;
    if (preference.filter.is_set()) break;
    if (group_of(entry.name) < group_of(best->name)) best = &entry;
  }
  return best;
}

tl::unexpected<Error> nothing_found(const std::vector<Interface>& interfaces,
                                    const InterfacePreference& preference) {
  std::string there;
  for (const Interface& entry : interfaces) {
    there += (there.empty() ? "" : ", ") + to_string(entry);
  }
  const bool none_is_up = there.empty();
  if (none_is_up) there = "none";
  std::string family = preference.family == AF_INET    ? " with an IPv4 address"
                       : preference.family == AF_INET6 ? " with an IPv6 address"
                                                       : "";
  std::string what = preference.filter.is_set()
                         ? "NCCL_SOCKET_IFNAME \"" + preference.filter.to_string() +
                               "\" matches no interface" + family
                         : "no network interface" + family + " is usable";
  std::string fix = preference.filter.is_set() && !none_is_up
                        ? "name one of them in NCCL_SOCKET_IFNAME"
                        : "bring an interface up and give it an address";
  if (preference.family != AF_UNSPEC) fix += ", or unset NCCL_SOCKET_FAMILY";
  return fail(Code::kInvalidUsage, what + "; interfaces that are up: " + there + ". Fix: " + fix);
}

using UniqueIfaddrs = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

bool is_up(const ifaddrs& entry) {
  constexpr unsigned kNeeded = IFF_UP | IFF_RUNNING;
  return (entry.ifa_flags & kNeeded) == kNeeded;
}

socklen_t length_of(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// Sets the scope of a link-local address, without which connect() does not know the interface.
void add_scope(Interface* entry) {
  sockaddr_in6 address{};
  std::memcpy(&address, &entry->address, sizeof(address));
  if (!IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) || address.sin6_scope_id != 0) return;
  address.sin6_scope_id = if_nametoindex(entry->name.c_str());
  std::memcpy(&entry->address, &address, sizeof(address));
}

}  // namespace

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  if (text.size() == 1) {
    return fail(Code::kInvalidUsage, "NCCL ignores a value of one character");
  }
  InterfaceFilter filter;
  filter.list_ = NameList::parse(text);
  for (NameList::Entry& entry : filter.list_.entries) entry.fields.clear();
  return filter;
}

bool InterfaceFilter::accepts(std::string_view name) const {
  if (list_.entries.empty()) return !list_.is_set;
  bool named = false;
  for (const NameList::Entry& entry : list_.entries) named = named || list_.names(entry, name);
  return named != list_.exclude;
}

Result<Interface> choose_interface(const std::vector<Interface>& interfaces,
                                   const InterfacePreference& preference) {
  const Interface* chosen = first_choice(interfaces, preference);
  if (chosen == nullptr) return nothing_found(interfaces, preference);
  if (!is_ipv6_link_local(*chosen)) return *chosen;
  for (const Interface& entry : interfaces) {
    if (entry.name == chosen->name && is_usable(entry, preference) && !is_ipv6_link_local(entry)) {
      return entry;
    }
  }
  return *chosen;
}

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

std::string to_string(const Interface& entry) {
  char address_text[INET6_ADDRSTRLEN] = "";
  std::string text = entry.name + " ";
  if (entry.address.ss_family == AF_INET6) {
    sockaddr_in6 address = as_ipv6(entry);
    inet_ntop(AF_INET6, &address.sin6_addr, address_text, sizeof(address_text));
    text += address_text;
    if (address.sin6_scope_id != 0) text += '%' + std::to_string(address.sin6_scope_id);
    return text;
  }
  sockaddr_in address{};
  std::memcpy(&address, &entry.address, sizeof(address));
  inet_ntop(AF_INET, &address.sin_addr, address_text, sizeof(address_text));
  return text + address_text;
}

}  // namespace gdr::transport
