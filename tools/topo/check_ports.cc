// Ports of HCAs: their state, speed and link layer, and whether HCAs can register GPU memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/topo/checks.h"
#include "tools/topo/port_use.h"
#include "tools/topo/rdma_devices.h"
#include "topology/live/slow_links.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {
namespace {

// Whether some GPU shares a PCIe switch with the HCA, which then belongs to the GPUs' network
// whatever its speed.
bool is_beside_gpu(const RailDecision& decision, int hca) {
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (decision.paths.gpu_hca(gpu, static_cast<size_t>(hca)) <= PathClass::kPxb) return true;
  }
  return false;
}

bool is_same_model(const Hca& a, const Hca& b) {
  return a.ids.vendor != 0 && a.ids.vendor == b.ids.vendor && a.ids.device == b.ids.device;
}

// Whether the port is near no GPU and others of its model are: it is of another network, and a rail
// only where nearer HCAs are missing.
bool is_substitute(const RailDecision& decision, PortRef port) {
  if (is_beside_gpu(decision, port.hca)) return false;
  const Machine& machine = decision.machine;
  return std::any_of(decision.plan.rails.begin(), decision.plan.rails.end(), [&](const Rail& rail) {
    return is_same_model(hca_of(machine, port), hca_of(machine, rail.port)) &&
           is_beside_gpu(decision, rail.port.hca);
  });
}

// Returns the ports whose speeds are compared: rails, and excluded ports beside a GPU, since a port
// that came up slowly may be excluded for just that.
std::vector<PortRef> compared_ports(const RailDecision& decision) {
  std::vector<PortRef> ports;
  for (const Rail& rail : decision.plan.rails) ports.push_back(rail.port);
  for (const ExcludedPort& one : decision.plan.excluded) {
    if (is_beside_gpu(decision, one.port.hca)) ports.push_back(one.port);
  }
  const Machine& machine = decision.machine;
  std::erase_if(ports, [&](const PortRef& port) {
    const Port& one = port_of(machine, port);
    return one.state == Port::State::kDown || one.speed_mbps == 0 ||
           is_substitute(decision, port) || hca_of(machine, port).physical_function.has_value();
  });
  return ports;
}

// Second ports that nothing shows to be in use have no cable, or the whole second plane is down.
void check_down(const CheckInput& input, Findings* found) {
  const RailDecision& decision = input.decision();
  for (const Rail& rail : decision.plan.rails) {
    const std::string label = port_label(decision.machine, rail.port);
    if (port_of(decision.machine, rail.port).state != Port::State::kDown) continue;
    std::string sign;
    if (is_unused_second_port(decision.machine, rail.port)) {
      sign = sign_of_use(input.inspection.sysfs_root, hca_of(decision.machine, rail.port).name,
                         port_of(decision.machine, rail.port).number);
      if (sign.empty()) continue;
    }
    found->push_back({FindingKind::kPortDown, Severity::kError, label,
                      fmt::format("the port is down, and rail {} with it{}", rail.id,
                                  sign.empty() ? "" : "; it is in use: " + sign),
                      "look at the cable, the switch's port and ibstat; exclude a port that is not "
                      "in use: NCCL_IB_HCA=^=" +
                          label});
  }
}

// Whether the ports should run at one speed. Ports of one model may be on both link layers.
bool are_peer_ports(const Machine& machine, PortRef a, PortRef b) {
  const Port::LinkLayer layer = port_of(machine, a).link_layer;
  const Port::LinkLayer other = port_of(machine, b).link_layer;
  const bool any_unknown = layer == Port::LinkLayer::kUnknown || other == Port::LinkLayer::kUnknown;
  return is_same_model(hca_of(machine, a), hca_of(machine, b)) && (any_unknown || layer == other);
}

void check_speeds(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  const std::vector<PortRef> ports = compared_ports(decision);
  for (const PortRef& port : ports) {
    const int own = topology::link_speed(machine, port);
    int best = own;
    std::vector<std::string> faster;
    for (const PortRef& other : ports) {
      if (!are_peer_ports(machine, port, other)) continue;
      best = std::max(best, topology::link_speed(machine, other));
      if (topology::link_speed(machine, other) > own) faster.push_back(port_label(machine, other));
    }
    if (best == own) continue;
    found->push_back(
        {FindingKind::kSlowLink, Severity::kError, port_label(machine, port),
         fmt::format("the port runs at {}, its peers {} at up to {}", speed_text(own),
                     short_list(faster), speed_text(best)),
         "look at the cable, the transceiver, the switch's port and nccl-gdr doctor --check "
         "error-counters; then set the port down and up"});
  }
}

const char* layer_text(Port::LinkLayer layer) {
  return layer == Port::LinkLayer::kInfiniBand ? "InfiniBand" : "Ethernet";
}

// Reports the rails of the link layer that fewer rails have.
void check_layers(const RailDecision& decision, Findings* found) {
  std::vector<std::string> infiniband, ethernet;
  for (const Rail& rail : decision.plan.rails) {
    const Port& port = port_of(decision.machine, rail.port);
    const std::string label = port_label(decision.machine, rail.port);
    if (port.link_layer == Port::LinkLayer::kInfiniBand) infiniband.push_back(label);
    if (port.link_layer == Port::LinkLayer::kEthernet) ethernet.push_back(label);
  }
  if (infiniband.empty() || ethernet.empty()) return;
  const bool few_ethernet = ethernet.size() < infiniband.size();
  const auto few = few_ethernet ? Port::LinkLayer::kEthernet : Port::LinkLayer::kInfiniBand;
  const auto many = few_ethernet ? Port::LinkLayer::kInfiniBand : Port::LinkLayer::kEthernet;
  found->push_back(
      {FindingKind::kLinkLayer, Severity::kWarning,
       short_list(few_ethernet ? ethernet : infiniband),
       fmt::format("link layer {}, that of the other rails is {}", layer_text(few),
                   layer_text(many)),
       fmt::format("if they should be of one network: mlxconfig -d PCI set LINK_TYPE_P1=1 for "
                   "InfiniBand, 2 for Ethernet, then reboot; if not: export NCCL_IB_HCA=^={}",
                   fmt::join(few_ethernet ? ethernet : infiniband, ","))});
}

bool has_nvidia_gpus(const Machine& machine) {
  return !machine.gpus.empty() && machine.gpus[0].ids.vendor == topology::kNvidia;
}

// How a GPU of another vendor gets GPUDirect RDMA.
constexpr char kOtherDriver[] =
    "use a kernel and a GPU driver with dma-buf and peer-to-peer DMA, or the driver's module for "
    "peer memory";

// HCAs of rails that are known to lack GPUDirect RDMA. Network interfaces without an RDMA device
// are no HCAs; returns whether all rails are such.
bool check_hca_registration(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  std::vector<std::string> hcas;
  bool any = false;
  for (const auto& [hca, unused] : rails_by_hca(decision.plan)) {
    const Hca& one = machine.hcas[static_cast<size_t>(hca)];
    if (!is_rdma_device(machine, one)) continue;
    any = true;
    if (!one.gpudirect.value_or(true)) hcas.push_back(one.name);
  }
  if (!hcas.empty() && !machine.gpus.empty()) {
    found->push_back({FindingKind::kNoGpuDirect, Severity::kError, short_list(hcas),
                      "cannot register GPU memory: neither dma-buf nor nvidia-peermem",
                      has_nvidia_gpus(machine)
                          ? "load the kernel module nvidia-peermem, or use a kernel and a driver "
                            "with dma-buf"
                          : kOtherDriver});
  }
  return !any && !decision.plan.rails.empty();
}

// HCAs of rails, and GPUs, that are known to lack GPUDirect RDMA.
void check_registration(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  if (check_hca_registration(decision, found)) return;
  std::vector<size_t> gpus;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (!machine.gpus[gpu].gpudirect.value_or(true)) gpus.push_back(gpu);
  }
  if (gpus.empty()) return;
  found->push_back(
      {FindingKind::kNoGpuDirect, Severity::kError, short_list(gpu_labels(gpus)),
       "the driver offers no GPUDirect RDMA on the GPU",
       has_nvidia_gpus(machine)
           ? "use a data-center GPU with NVIDIA's open kernel modules, and look at its driver"
           : kOtherDriver});
}

}  // namespace

void check_ports(const CheckInput& input, Findings* found) {
  const RailDecision& decision = input.decision();
  if (!decision.machine.gpus.empty()) {  // else storage networks are rails, too
    check_down(input, found);
    check_speeds(decision, found);
    check_layers(decision, found);
  }
  check_registration(decision, found);
}

}  // namespace gdr::tools::topo
