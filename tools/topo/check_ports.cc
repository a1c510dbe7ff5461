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

void check_down(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  std::vector<std::string> unused;
  for (const Rail& rail : decision.plan.rails) {
    const std::string label = port_label(decision.machine, rail.port);
    if (port_of(decision.machine, rail.port).state != Port::State::kDown) continue;
    std::string sign;
    if (is_unused_second_port(decision.machine, rail.port)) {
      sign = sign_of_use(input.inspection.sysfs_root, hca_of(decision.machine, rail.port).name,
                         port_of(decision.machine, rail.port).number);
      if (sign.empty()) {
        unused.push_back(label);
        continue;
      }
    }
    add_fault(report, FindingKind::kPortDown, label,
              fmt::format("the port is down, and rail {} with it{}", rail.id,
                          sign.empty() ? "" : "; it is in use: " + sign),
              "look at the cable, the switch's port and ibstat; exclude a port that is not in use: "
              "NCCL_IB_HCA=^=" +
                  label);
  }
  if (unused.empty()) return;
  const char* not_seen = input.inspection.sysfs_root.empty()
                             ? ""
                             : "sysfs shows neither a link nor an address of them; ";
  report->notes.push_back(fmt::format(
      "no card of the model has its second port up ({}): they have no cable, or the whole second "
      "plane is down, which --expect finds; {}NCCL_IB_HCA=^={} excludes ports that are not in use",
      short_list(unused), not_seen, fmt::join(unused, ",")));
}

// Whether the ports should run at one speed. Ports of one model may be on both link layers.
bool are_peer_ports(const Machine& machine, PortRef a, PortRef b) {
  const Port::LinkLayer layer = port_of(machine, a).link_layer;
  const Port::LinkLayer other = port_of(machine, b).link_layer;
  const bool any_unknown = layer == Port::LinkLayer::kUnknown || other == Port::LinkLayer::kUnknown;
  return is_same_model(hca_of(machine, a), hca_of(machine, b)) && (any_unknown || layer == other);
}

void check_speeds(const RailDecision& decision, CheckReport* report) {
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
    add_fault(report, FindingKind::kSlowLink, port_label(machine, port),
              fmt::format("the port runs at {}, its peers {} at up to {}", speed_text(own),
                          short_list(faster), speed_text(best)),
              "look at the cable, the switch's port and the link's error counters");
  }
}

const char* layer_text(Port::LinkLayer layer) {
  return layer == Port::LinkLayer::kInfiniBand ? "InfiniBand" : "Ethernet";
}

// Reports the rails of the link layer that fewer rails have.
void check_layers(const RailDecision& decision, CheckReport* report) {
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
  add_fault(report, FindingKind::kLinkLayer, short_list(few_ethernet ? ethernet : infiniband),
            fmt::format("link layer {}, that of the other rails is {}", layer_text(few),
                        layer_text(many)),
            "set LINK_TYPE by mlxconfig, or exclude the ports by NCCL_IB_HCA");
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
bool check_hca_registration(const RailDecision& decision, CheckReport* report) {
  const Machine& machine = decision.machine;
  std::vector<std::string> hcas, interfaces;
  bool any = false;
  for (const auto& [hca, unused] : rails_by_hca(decision.plan)) {
    const Hca& one = machine.hcas[static_cast<size_t>(hca)];
    if (!is_rdma_device(machine, one)) {
      interfaces.push_back(one.name);
      continue;
    }
    any = true;
    if (!one.gpudirect.value_or(true)) hcas.push_back(one.name);
  }
  if (!interfaces.empty()) {
    report->notes.push_back(short_list(interfaces) +
                            ": no RDMA device, as far as the file shows (no GUID, no GPUDirect "
                            "RDMA); NCCL uses network interfaces by sockets, through host memory");
  }
  if (!hcas.empty() && !machine.gpus.empty()) {
    add_fault(report, FindingKind::kNoGpuDirect, short_list(hcas),
              "cannot register GPU memory: neither dma-buf nor nvidia-peermem",
              has_nvidia_gpus(machine)
                  ? "load the kernel module nvidia-peermem, or use a kernel and a driver with "
                    "dma-buf"
                  : kOtherDriver);
  }
  return !any && !interfaces.empty();
}

// HCAs of rails, and GPUs, that are known to lack GPUDirect RDMA.
void check_registration(const RailDecision& decision, CheckReport* report) {
  const Machine& machine = decision.machine;
  if (check_hca_registration(decision, report)) return;
  std::vector<size_t> gpus;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (!machine.gpus[gpu].gpudirect.value_or(true)) gpus.push_back(gpu);
  }
  if (gpus.empty()) return;
  add_fault(report, FindingKind::kNoGpuDirect, short_list(gpu_labels(gpus)),
            "the driver offers no GPUDirect RDMA on the GPU",
            has_nvidia_gpus(machine)
                ? "use a data-center GPU with NVIDIA's open kernel modules, and look at its driver"
                : kOtherDriver);
}

template <class IsUnknown>
void note_unknown(const RailDecision& decision, const char* what, IsUnknown&& is_unknown,
                  CheckReport* report) {
  std::vector<std::string> labels;
  for (const Rail& rail : decision.plan.rails) {
    if (is_unknown(hca_of(decision.machine, rail.port), port_of(decision.machine, rail.port))) {
      labels.push_back(port_label(decision.machine, rail.port));
    }
  }
  if (!labels.empty()) report->notes.push_back(what + (" is unknown: " + short_list(labels)));
}

}  // namespace

void check_ports(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  if (!decision.machine.gpus.empty()) {  // else storage networks are rails, too
    check_down(input, report);
    check_speeds(decision, report);
    check_layers(decision, report);
  }
  check_registration(decision, report);
  note_unknown(
      decision, "the state of ports",
      [](const Hca&, const Port& port) { return port.state == Port::State::kUnknown; }, report);
  note_unknown(
      decision, "the speed of ports",
      [](const Hca&, const Port& port) {
        return port.speed_mbps == 0 && port.state != Port::State::kDown;
      },
      report);
  note_unknown(
      decision, "whether HCAs can register GPU memory",
      [](const Hca& hca, const Port&) { return !hca.gpudirect.has_value(); }, report);
}

}  // namespace gdr::tools::topo
