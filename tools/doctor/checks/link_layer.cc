// Whether all rails are on one kind of network.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
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

Observation mixed_layers(const Host& host, const std::vector<std::string>& infiniband,
                         const std::vector<std::string>& ethernet) {
  const bool few_ethernet = ethernet.size() <= infiniband.size();
  const std::vector<std::string>& few = few_ethernet ? ethernet : infiniband;
  const std::string evidence =
      fmt::format("{} on {}, {} on {} (link_layer in sysfs)", topo::short_list(few),
                  few_ethernet ? "Ethernet" : "InfiniBand",
                  topo::short_list(few_ethernet ? infiniband : ethernet),
                  few_ethernet ? "InfiniBand" : "Ethernet");
  // Without GPUs nothing says which ports are for NCCL.
  if (!has_rails(host)) return ok("", evidence);
  return warning("", evidence,
                 fmt::format("if they should be of one network: mlxconfig -d PCI set "
                             "LINK_TYPE_P1=1 for InfiniBand, 2 for Ethernet, then reboot; if not: "
                             "export NCCL_IB_HCA=^={}",
                             fmt::join(few, ",")));
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
  if (!infiniband.empty() && !ethernet.empty()) {
    seen.push_back(mixed_layers(host, infiniband, ethernet));
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
          .kind = FindingKind::kLinkLayer,
          .run = run_link_layer};
}

}  // namespace gdr::tools::doctor
