#include "tools/doctor/silent_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/host.h"

namespace gdr::tools::doctor::silent_file {
namespace {

using topology::Hca;
using topology::Machine;
using topology::Port;

constexpr char kNoGpu[] = "the file shows no GPU";
constexpr char kNoHca[] = "the file shows no HCA";

const Machine& machine_of(const Host& host) { return host.inspection->decision.machine; }

Observation not_shown(const std::string& what) {
  return unknown("", "the file does not show " + what, "run it on the machine, or give --root");
}

template <class Device>
bool any_width_known(const std::vector<Device>& devices) {
  constexpr int kUnknownWidth = 255;
  return std::any_of(devices.begin(), devices.end(), [](const Device& one) {
    return one.link.width > 0 && one.link.width != kUnknownWidth;
  });
}

// What it says of the ports of rails; `is_known` is whether the file shows `what` of a port.
template <class IsKnown>
Observation of_ports(const Host& host, const std::string& what, IsKnown&& is_known) {
  const Machine& machine = machine_of(host);
  if (machine.gpus.empty()) return nothing(kNoGpu);
  if (machine.hcas.empty()) return nothing(kNoHca);
  const bool any = std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(), is_known);
  });
  return any ? is_good(host) : not_shown(what);
}

}  // namespace

Observation is_good(const Host&) { return ok("", "nothing is wrong, as far as the file shows"); }

Observation of_pcie_links(const Host& host) {
  const Machine& machine = machine_of(host);
  const bool is_known = any_width_known(machine.gpus) || any_width_known(machine.hcas) ||
                        any_width_known(machine.switches);
  return is_known ? is_good(host) : not_shown("the width of any PCIe link");
}

Observation of_nvlinks(const Host& host) {
  if (machine_of(host).gpus.empty()) return nothing(kNoGpu);
  return machine_of(host).gpu_links_known ? is_good(host) : not_shown("the NVLinks of GPUs");
}

Observation of_rails(const Host& host) {
  if (machine_of(host).gpus.empty()) return nothing(kNoGpu);
  return machine_of(host).hcas.empty() ? nothing(kNoHca) : is_good(host);
}

Observation of_registration(const Host& host) {
  const Machine& machine = machine_of(host);
  if (machine.gpus.empty()) return nothing(kNoGpu);
  const bool is_known = std::any_of(machine.hcas.begin(), machine.hcas.end(),
                                    [](const Hca& hca) { return hca.gpudirect.has_value(); });
  return is_known ? is_good(host) : not_shown("whether HCAs can register GPU memory");
}

Observation of_port_states(const Host& host) {
  return of_ports(host, "the state of any port",
                  [](const Port& port) { return port.state != Port::State::kUnknown; });
}

Observation of_port_rates(const Host& host) {
  return of_ports(host, "the rate of any port",
                  [](const Port& port) { return port.speed_mbps > 0 || port.link_mbps > 0; });
}

Observation of_link_layers(const Host& host) {
  return of_ports(host, "the link layer of any port",
                  [](const Port& port) { return port.link_layer != Port::LinkLayer::kUnknown; });
}

Observation of_filters(const Host&) {
  return not_shown(
      "network interfaces and partition keys, of which NCCL_SOCKET_IFNAME and "
      "NCCL_IB_PKEY choose");
}

}  // namespace gdr::tools::doctor::silent_file
