// The MTU of ports and of their network interfaces.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/facts/host.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

// What the headers of RoCE v2 take of an interface's MTU: GRH or IP 40, UDP 8, BTH 12, XRC 4,
// AtomicETH 28 and ICRC 4 bytes. Source: iboe_get_mtu() of Linux (include/rdma/ib_addr.h).
constexpr int kRoceHeaderBytes = 96;
constexpr int kLargestRdmaMtu = 4096;
// What guides set on NICs and switches, for a payload of 4096.
constexpr int kJumboMtu = 9000;

// The largest payload of a packet that an interface's MTU leaves room for; 0: none.
int roce_payload(int netdev_mtu) {
  for (int mtu = kLargestRdmaMtu; mtu >= 256; mtu /= 2) {
    if (netdev_mtu >= mtu + kRoceHeaderBytes) return mtu;
  }
  return 0;
}

std::optional<int> netdev_mtu_of(const Host& host, const RdmaPort& port) {
  const RdmaNetdev* netdev = netdev_of(host, port);
  return netdev == nullptr ? std::nullopt : netdev->mtu;
}

// What verbs says, else what follows from the interface.
std::optional<int> active_mtu_of(const Host& host, const RdmaPort& port) {
  if (port.active_mtu) return port.active_mtu;
  const std::optional<int> netdev = netdev_mtu_of(host, port);
  if (!port.is_ethernet() || !netdev) return {};
  return std::min(roce_payload(*netdev), port.max_mtu.value_or(kLargestRdmaMtu));
}

std::string mtu_evidence(const Host& host, const RdmaPort& port, int active) {
  std::string text = fmt::format("RDMA MTU {}", active);
  if (port.max_mtu) text += fmt::format(" of {}", *port.max_mtu);
  if (!port.active_mtu) text += " at most";
  const std::optional<int> netdev = netdev_mtu_of(host, port);
  if (port.is_ethernet() && netdev) {
    text += fmt::format(", {} has MTU {}", port.netdevs.front(), *netdev);
  }
  return text;
}

// `wanted` is the MTU that the interface should have.
Observation small_netdev_mtu(const FabricPort& one, const std::string& evidence, int wanted) {
  const std::string command =
      fmt::format("ip link set dev {} mtu {}", topo::shell_word(one.port->netdevs.front()), wanted);
  return warning(one.label, evidence,
                 command +
                     ", on every node, and at least as much on each port of the switches, or large "
                     "packets are lost",
                 {command});
}

// What the MTU of most ports is; the largest of those that are equally frequent.
int usual_mtu(const Host& host, const std::vector<FabricPort>& ports) {
  std::map<int, int> counts;
  for (const FabricPort& one : ports) {
    if (const auto mtu = active_mtu_of(host, *one.port)) ++counts[*mtu];
  }
  int usual = 0, most = 0;
  for (const auto& [mtu, count] : counts) {
    if (count >= most) usual = mtu, most = count;
  }
  return usual;
}

int wanted_netdev_mtu(const Host& host, const std::vector<FabricPort>& ports) {
  int wanted = 0;
  for (const FabricPort& one : ports) {
    const auto mtu = netdev_mtu_of(host, *one.port);
    if (mtu && roce_payload(*mtu) == kLargestRdmaMtu) wanted = std::max(wanted, *mtu);
  }
  return wanted > 0 ? wanted : kJumboMtu;
}

Observation port_mtu_seen(const Host& host, const FabricPort& one,
                          const std::vector<FabricPort>& ports) {
  const RdmaPort& port = *one.port;
  const std::optional<int> active = active_mtu_of(host, port);
  if (!active) {
    return unknown(one.label, "its MTU is unknown",
                   "run it on the machine, where libibverbs can open the HCA");
  }
  const int best = port.max_mtu.value_or(kLargestRdmaMtu);
  const int usual = usual_mtu(host, ports);
  std::string evidence = mtu_evidence(host, port, *active);
  if (*active != usual) evidence += fmt::format("; other rails have {}", usual);
  const std::optional<int> netdev = netdev_mtu_of(host, port);
  if (*active >= best && *active == usual) return ok(one.label, evidence);
  if (port.is_ethernet() && netdev && roce_payload(*netdev) < best) {
    // Without GPUs, a port may be that of a network where no one needs more.
    if (!has_rails(host) && *active == usual) return ok(one.label, evidence);
    return small_netdev_mtu(one, evidence, wanted_netdev_mtu(host, ports));
  }
  if (*active >= best || (!port.is_ethernet() && !port.is_infiniband())) {
    if (*active >= usual) return ok(one.label, evidence);
    return warning(one.label, evidence,
                   "give it the MTU of the other rails: update its firmware, or replace the HCA by "
                   "one of their model");
  }
  return warning(one.label, evidence,
                 port.is_ethernet()
                     ? "set the interface down and up; if the MTU stays, look at the HCA's driver"
                     : "raise the MTU in the subnet manager's partitions (opensm: mtu=5 in "
                       "partitions.conf) and on the switches");
}

}  // namespace

Observations run_port_mtu(const Host& host) {
  std::vector<FabricPort> ports = judged_ports(host);
  std::erase_if(ports, [](const FabricPort& one) { return !one.port->is_active(); });
  if (ports.empty()) {
    return {host.ports.hcas.empty() ? no_fabric_port(host) : ok("", "no port is active")};
  }
  Observations seen;
  for (const FabricPort& one : ports) seen.push_back(port_mtu_seen(host, one, ports));
  return seen;
}

}  // namespace gdr::tools::doctor
