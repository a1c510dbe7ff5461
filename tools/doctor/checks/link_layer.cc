// Whether all rails are on one kind of network.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/host.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

std::vector<std::string> labels_on_layer(const std::vector<FabricPort>& ports, const char* layer) {
  std::vector<std::string> labels;
  for (const FabricPort& one : ports) {
    if (one.port->link_layer == layer) labels.push_back(one.label);
  }
  return labels;
}

Observations run_link_layer(const Host& host) {
  const std::vector<FabricPort> ports = judged_ports(host);
  if (ports.empty()) return {no_fabric_port(host)};
  Observations seen;
  const auto infiniband = labels_on_layer(ports, "InfiniBand");
  const auto ethernet = labels_on_layer(ports, "Ethernet");
  for (const FabricPort& one : ports) {
    if (one.port->link_layer.empty()) {
      seen.push_back(unknown(one.label, "its link layer is unknown", "mount /sys"));
    }
  }
  const Observations mixed = findings_of(host, link_layer().kinds);
  seen.insert(seen.end(), mixed.begin(), mixed.end());
  if (!infiniband.empty() && !ethernet.empty()) {
    // Without GPUs nothing says which ports are for NCCL.
    if (mixed.empty()) {
      seen.push_back(ok("", fmt::format("{} on Ethernet, {} on InfiniBand (link_layer in sysfs)",
                                        topo::short_list(ethernet), topo::short_list(infiniband))));
    }
  } else if (!infiniband.empty() || !ethernet.empty()) {
    seen.push_back(ok("", infiniband.empty() ? "all on Ethernet (RoCE)" : "all on InfiniBand"));
  }
  return seen;
}

}  // namespace

Check link_layer() {
  return {.name = "link-layer",
          .looks_at = "whether all rails are on InfiniBand or all on Ethernet",
          .why =
              "Ports of the two cannot reach each other, so that a rail of the minority is lost "
              "unless every node has it alike.",
          .cost = Cost::kHalves,
          .kinds = {FindingKind::kLinkLayer},
          .of_silent_file = silent_file::of_link_layers,
          .run = run_link_layer};
}

}  // namespace gdr::tools::doctor
