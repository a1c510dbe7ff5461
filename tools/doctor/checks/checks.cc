#include "tools/doctor/checks/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

template <class Device>
bool any_width_known(const std::vector<Device>& devices) {
  constexpr int kUnknownWidth = 255;
  return std::any_of(devices.begin(), devices.end(), [](const Device& one) {
    return one.link.width > 0 && one.link.width != kUnknownWidth;
  });
}

template <class IsKnown>
bool any_port(const Machine& machine, IsKnown&& is_known) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(), is_known);
  });
}

bool shows_nothing(const Machine&) { return false; }

bool shows_pcie_widths(const Machine& machine) {
  return any_width_known(machine.gpus) || any_width_known(machine.hcas) ||
         any_width_known(machine.switches);
}

bool shows_nvlinks(const Machine& machine) { return machine.gpu_links_known; }

bool shows_registration(const Machine& machine) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(),
                     [](const Hca& hca) { return hca.gpudirect.has_value(); });
}

bool shows_port_states(const Machine& machine) {
  return any_port(machine, [](const Port& port) { return port.state != Port::State::kUnknown; });
}

bool shows_port_rates(const Machine& machine) {
  return any_port(machine,
                  [](const Port& port) { return port.speed_mbps > 0 || port.link_mbps > 0; });
}

bool shows_link_layers(const Machine& machine) {
  return any_port(machine,
                  [](const Port& port) { return port.link_layer != Port::LinkLayer::kUnknown; });
}

}  // namespace

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      // GPUs and their driver
      {.name = "nvidia-driver",
       .looks_at = "the NVIDIA GPUs, their kernel driver, and whether its modules are open",
       .why = "Without NVIDIA's driver no CUDA program uses the GPU.",
       .cost = Cost::kStops,
       .run = run_nvidia_driver},
      {.name = "cuda-driver",
       .looks_at = "libcuda.so.1 against the kernel module",
       .why = "A driver library that does not fit the kernel module, or is absent, keeps every "
              "CUDA program from starting.",
       .cost = Cost::kStops,
       .run = run_cuda_driver},
      {.name = "memory-registration",
       .looks_at = "whether the rails' HCAs can register GPU memory: dma-buf or nvidia-peermem",
       .why = "GPUDirect RDMA needs one of the two; without, all data is copied through host "
              "memory.",
       .cost = Cost::kHalves,
       .kinds = {FindingKind::kNoGpuDirect},
       .in_file = InFile{.needs_gpu = true,
                         .what = "whether HCAs can register GPU memory",
                         .is_shown = shows_registration},
       .run = run_memory_registration},
      {.name = "bar1",
       .looks_at = "the size of each GPU's BAR1, by which HCAs access its memory",
       .why = "Where BAR1 is smaller than the memory, the registration of large buffers fails "
              "with EINVAL or ENOMEM once it is full, and their data goes through host memory.",
       .cost = Cost::kRisk,
       .kinds = {FindingKind::kBar},
       .needs_topology = true,
       .is_about_gpus = true,
       .run = run_bar1},
      {.name = "gpu-rail-path",
       .looks_at = "the path from each GPU to its rail, and whether NCCL allows GPUDirect there",
       .why = "NCCL copies through host memory where the path is longer than its level for "
              "GPUDirect RDMA (NCCL_NET_GDR_LEVEL), and logs nothing.",
       .cost = Cost::kHalves,
       .kinds = {FindingKind::kGdrReach},
       .in_file = InFile{.needs_gpu = true, .needs_hca = true},
       .needs_topology = true,
       .is_about_gpus = true,
       .run = run_gpu_rail_path},
      {.name = "rails",
       .looks_at = "which HCA port each GPU uses, and whether NCCL agrees",
       .why = "A GPU without a rail uses no RDMA; one with a smaller share, or whose data NCCL "
              "sends elsewhere, holds up all others of a collective.",
       .cost = Cost::kStops,
       .kinds = {FindingKind::kRailShare, FindingKind::kNoRail, FindingKind::kNcclFails,
                 FindingKind::kNcclChoice, FindingKind::kRestriction, FindingKind::kRailMap,
                 FindingKind::kRailMapIgnored, FindingKind::kTopologyUnknown,
                 FindingKind::kSeveralHosts},
       .in_file = InFile{.needs_gpu = true, .needs_hca = true},
       .needs_topology = true,
       .is_about_gpus = true,
       .run = run_rails},
      {.name = "nvlink",
       .looks_at = "whether a GPU has fewer NVLinks or NVLink-C2C links that are up than others",
       .why = "A link that is down slows every collective on the node, and GPUs that reach their "
              "rail over it (PXN, C2C).",
       .cost = Cost::kSlows,
       .kinds = {FindingKind::kNvlink, FindingKind::kC2c},
       .in_file =
           InFile{.needs_gpu = true, .what = "the NVLinks of GPUs", .is_shown = shows_nvlinks},
       .needs_topology = true,
       .is_about_gpus = true,
       .run = run_nvlink},

      // PCIe
      {.name = "pci-acs",
       .looks_at = "the ACS control register of each switch port between a GPU and its rail",
       .why = "A port that redirects sends GPUDirect RDMA up to the CPU and back instead of "
              "through the switch: half of the bandwidth or less.",
       .cost = Cost::kHalves,
       .kinds = {FindingKind::kAcs},
       .needs_topology = true,
       .is_about_gpus = true,
       .run = run_pci_acs},
      {.name = "iommu",
       .looks_at = "whether an IOMMU translates the addresses of HCAs",
       .why = "Translated requests for GPU memory go up to the CPU's root complex and back, even "
              "below one switch.",
       .cost = Cost::kSlows,
       .kinds = {FindingKind::kIommu},
       .run = run_iommu},
      {.name = "pcie-link",
       .looks_at = "width and speed of the PCIe links of GPUs, HCAs and switches against what "
                   "they support and against their peers",
       .why = "A link that trained with fewer lanes or a lower speed bounds every transfer over "
              "it.",
       .cost = Cost::kSlows,
       .kinds = {FindingKind::kPcieWidth, FindingKind::kPcieSpeed},
       .in_file = InFile{.what = "the width of any PCIe link", .is_shown = shows_pcie_widths},
       .needs_topology = true,
       .run = run_pcie_link},
      {.name = "numa",
       .looks_at = "the NUMA nodes of GPUs and HCAs",
       .why = "NCCL takes a device of unknown node to be near no other.",
       .cost = Cost::kSlows,
       .kinds = {FindingKind::kNuma, FindingKind::kTopologySource},
       .in_file = InFile{},
       .needs_topology = true,
       .run = run_numa},

      // Ports and fabric
      {.name = "rdma-devices",
       .looks_at = "the RDMA devices of the kernel and of libibverbs, and HCAs without one",
       .why = "Without an RDMA device NCCL moves everything by TCP sockets through host memory.",
       .cost = Cost::kStops,
       .kinds = {FindingKind::kNoHca, FindingKind::kNoGpu, FindingKind::kHcaUnsupported},
       .in_file = InFile{.needs_gpu = true, .needs_hca = true},
       .run = run_rdma_devices},
      {.name = "port-state",
       .looks_at = "the state and the physical state of each port",
       .why = "A rail whose port is not active carries nothing: its GPU uses another rail, "
              "farther away and shared, or the job does not start.",
       .cost = Cost::kHalves,
       .kinds = {FindingKind::kPortDown},
       .in_file = InFile{.needs_gpu = true,
                         .needs_hca = true,
                         .what = "the state of any port",
                         .is_shown = shows_port_states},
       .run = run_port_state},
      {.name = "link-layer",
       .looks_at = "whether all rails are on InfiniBand or all on Ethernet",
       .why = "Ports of the two cannot reach each other, so that a rail of the minority is lost "
              "unless every node has it alike.",
       .cost = Cost::kHalves,
       .kinds = {FindingKind::kLinkLayer},
       .in_file = InFile{.needs_gpu = true,
                         .needs_hca = true,
                         .what = "the link layer of any port",
                         .is_shown = shows_link_layers},
       .run = run_link_layer},
      {.name = "port-rate",
       .looks_at = "the rate of each port against those of its peers, and the lanes of its link",
       .why = "Each step of a collective waits for the slowest rail.",
       .cost = Cost::kSlows,
       .kinds = {FindingKind::kSlowLink},
       .in_file = InFile{.needs_gpu = true,
                         .needs_hca = true,
                         .what = "the rate of any port",
                         .is_shown = shows_port_rates},
       .run = run_port_rate},
      {.name = "port-mtu",
       .looks_at = "the RDMA MTU of each active port and the MTU of its network interface",
       .why = "Small packets cost a part of the bandwidth, and two ends use the smaller MTU of "
              "theirs.",
       .cost = Cost::kSlows,
       .run = run_port_mtu},
      {.name = "roce-gids",
       .looks_at = "the GID that NCCL and the plugin choose on each RoCE port",
       .why = "Both ends need a GID of the same RoCE version and address family that the "
              "network routes, or connections fail or time out.",
       .cost = Cost::kStops,
       .run = run_roce_gids},
      {.name = "ip-subnets",
       .looks_at = "RoCE ports that share an IPv4 subnet, and the ARP settings for that",
       .why = "Linux answers an ARP request for any of its addresses on any interface, so that "
              "peers send a rail's packets to another NIC, which drops them (ARP flux).",
       .cost = Cost::kHalves,
       .run = run_ip_subnets},
      {.name = "error-counters",
       .looks_at = "the hardware error counters of each port, twice, a second apart (run it "
                   "under load), or against those of --since",
       .why = "Errors on a link or lost packets cost retransmissions, which halt a queue pair "
              "for milliseconds to seconds, and end it after some.",
       .cost = Cost::kSlows,
       .run = run_error_counters},
      {.name = "good-machine",
       .looks_at = "what the good machine of --expect has, and this one should have",
       .why = "A job is as slow as its slowest node, and a machine does not know what it ought to "
              "have.",
       .cost = Cost::kHalves,
       .needs_topology = true,
       .run = run_good_machine},

      // The process, the system and containers
      {.name = "sysfs",
       .looks_at = "whether /sys shows the PCI functions of the GPUs and HCAs",
       .why = "NCCL and the plugin read distances there; a device that it hides is taken to be "
              "far from every other, so that GPUs use the wrong rail or no GPUDirect RDMA.",
       .cost = Cost::kHalves,
       .run = run_sysfs},
      {.name = "memory-lock",
       .looks_at = "the limit of locked memory of this process",
       .why = "RDMA pins the host memory that it registers, and fails with ENOMEM beyond the "
              "limit.",
       .cost = Cost::kStops,
       .run = run_memory_lock},

      // Settings and libraries
      {.name = "nccl-transport",
       .looks_at = "the variables that select NCCL's transport",
       .why = "NCCL falls back to sockets or to another transport without a message, or does not "
              "start.",
       .cost = Cost::kStops,
       .run = run_nccl_transport},
      {.name = "nccl-filters",
       .looks_at = "whether NCCL_IB_HCA and NCCL_SOCKET_IFNAME fit this machine",
       .why = "A filter that matches nothing leaves NCCL without an HCA or without an interface.",
       .cost = Cost::kStops,
       .kinds = {FindingKind::kHcaUnmatched, FindingKind::kHcaPrefix},
       .in_file = InFile{.what = "network interfaces, of which NCCL_SOCKET_IFNAME chooses",
                         .is_shown = shows_nothing},
       .run = run_nccl_filters},
      {.name = "nccl-variables",
       .looks_at = "NCCL_* and GDR_NCCL_* variables that do nothing or not what is meant",
       .why = "NCCL ignores what it does not know and reads some values differently from the "
              "guides, without a message.",
       .cost = Cost::kRisk,
       .kinds = {FindingKind::kBadValue, FindingKind::kListEntry, FindingKind::kUnknownVariable,
                 FindingKind::kNoEffect, FindingKind::kMlx5Locks, FindingKind::kGdrLevel,
                 FindingKind::kNcclRelease},
       .in_file = InFile{.judge_file = judge_topology_file},
       .run = run_nccl_variables},
      {.name = "nccl-conf",
       .looks_at = "NCCL's configuration files: NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf",
       .why = "NCCL reads these files without a message about what it ignores.",
       .cost = Cost::kRisk,
       .run = run_nccl_conf},
      {.name = "verbs-library",
       .looks_at = "libibverbs as the loader finds it",
       .why = "Without the library NCCL sees no HCA and uses sockets.",
       .cost = Cost::kStops,
       .run = run_verbs_library},
      {.name = "nccl-library",
       .looks_at = "the copies of libnccl.so.2 that the loader and Python's packages have",
       .why = "Nodes whose jobs load different releases fail or hang, and old releases do not "
              "load the plugin.",
       .cost = Cost::kStops,
       .run = run_nccl_library},
      {.name = "net-plugin",
       .looks_at = "the network plugin that NCCL loads, as the loader finds it",
       .why = "Where NCCL does not find a plugin, or finds another one, it goes on without a "
              "message, perhaps on one node only.",
       .cost = Cost::kStops,
       .run = run_net_plugin},
  };
  return checks;
}

const Check& check_named(std::string_view name) {
  for (const Check& one : all_checks()) {
    if (one.name == name) return one;
  }
  fmt::print(stderr, "nccl-gdr: there is no check {}\n", name);
  std::abort();
}

}  // namespace gdr::tools::doctor
