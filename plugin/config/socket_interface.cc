#include "plugin/config/socket_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace gdr::config {
namespace {

// NCCL's order of preference if the user sets no filter; smaller is better.
int group_of(std::string_view name) {
  if (name.starts_with("ib")) return 0;
  if (name.starts_with("docker")) return 2;
  if (name.starts_with("lo")) return 3;
  if (name.starts_with("virbr")) return 4;
  return 1;
}

// The address of IPv6; of IPv4 ::, which is neither the loopback nor link-local.
in6_addr ipv6_of(const Interface& entry) {
  sockaddr_in6 address{};
  if (entry.address.ss_family == AF_INET6) std::memcpy(&address, &entry.address, sizeof(address));
  return address.sin6_addr;
}

bool is_link_local(const Interface& entry) {
  const in6_addr address = ipv6_of(entry);
  return IN6_IS_ADDR_LINKLOCAL(&address);
}

bool is_usable(const Interface& entry, const InterfacePreference& preference) {
  const int family = entry.address.ss_family;
  if (preference.family != AF_UNSPEC && family != preference.family) return false;
  const in6_addr address = ipv6_of(entry);
  return !IN6_IS_ADDR_LOOPBACK(&address) && preference.filter.accepts(entry.name);
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
  std::string what =
      preference.filter.is_set()
          ? "NCCL_SOCKET_IFNAME \"" + preference.filter.to_string() + "\" matches no interface"
          : "no network interface is usable";
  std::string fix = "name one that is up in NCCL_SOCKET_IFNAME, or give one an address";
  if (preference.family != AF_UNSPEC) {
    what += preference.family == AF_INET ? " with an IPv4 address" : " with an IPv6 address";
    fix += ", or unset NCCL_SOCKET_FAMILY";
  }
  return fail(Code::kInvalidUsage, what + "; interfaces that are up: " +
                                       (there.empty() ? "none" : there) + ". Fix: " + fix);
}

}  // namespace

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  if (text.size() == 1) {
    return fail(Code::kInvalidUsage, "NCCL ignores a value of one character");
  }
  InterfaceFilter filter;
  filter.list_ = discovery::NameList::parse(text);
  for (discovery::NameList::Entry& entry : filter.list_.entries) entry.fields.clear();
  return filter;
}

bool InterfaceFilter::accepts(std::string_view name) const {
  if (list_.entries.empty()) return !list_.is_set;
  bool named = false;
  for (const discovery::NameList::Entry& entry : list_.entries) {
    named = named || list_.names(entry, name);
  }
  return named != list_.exclude;
}

Result<Interface> choose_interface(const std::vector<Interface>& interfaces,
                                   const InterfacePreference& preference) {
  const Interface* chosen = first_choice(interfaces, preference);
  if (chosen == nullptr) return nothing_found(interfaces, preference);
  for (const Interface& entry : interfaces) {
    if (entry.name == chosen->name && is_usable(entry, preference) && !is_link_local(entry)) {
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
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, &freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* item = head; item != nullptr; item = item->ifa_next) {
    constexpr unsigned kNeeded = IFF_UP | IFF_RUNNING;
    if (item->ifa_addr == nullptr || (item->ifa_flags & kNeeded) != kNeeded) continue;
    const int family = item->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    // That of a link-local address has its scope, without which connect() does not know the
    // interface.
    Interface& entry = interfaces.emplace_back();
    entry.name = item->ifa_name;
    std::memcpy(&entry.address, item->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  return interfaces;
}

std::string to_string(const Interface& entry) {
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&entry.address), sizeof(entry.address), text,
              sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return entry.name + " " + text;
}

}  // namespace gdr::config
