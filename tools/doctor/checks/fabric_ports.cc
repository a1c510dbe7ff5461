#include "tools/doctor/checks/fabric_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/topo/labels.h"
#include "topology/ports.h"

namespace gdr::tools::doctor {
namespace {

// The reason for which each port of the decision carries no GPU's traffic; "" for rails.
std::map<std::string, std::string> fabric_exclusions(const topology::RailDecision& decision) {
  std::map<std::string, std::string> reasons;
  for (const topology::ExcludedPort& one : decision.plan.excluded) {
    reasons[topology::port_label(decision.machine, one.port)] = one.reason;
  }
  for (const topology::Rail& rail : decision.plan.rails) {
    reasons[topology::port_label(decision.machine, rail.port)] = "";
  }
  return reasons;
}

// What the inspection says of a port that it left out: "is excluded by NCCL_IB_HCA"; "" for others.
std::string reason_of_inspection(const Host& host, const std::string& label) {
  if (!host.inspection.has_value()) return "";
  for (const std::string& text : host.inspection->not_offered) {
    if (text.starts_with(label + " ")) return text.substr(label.size() + 1);
  }
  return "";
}

// NCCL's net_ib leaves iWARP devices out, and so does the plugin unless NCCL_IB_HCA names them.
bool is_iwarp(const RdmaHca& hca) { return hca.node_type.starts_with("4:"); }

}  // namespace

bool has_rails(const Host& host) {
  return host.inspection.has_value() && !host.inspection->decision.machine.gpus.empty() &&
         !host.inspection->decision.plan.rails.empty();
}

std::vector<FabricPort> fabric_ports(const Host& host) {
  std::map<std::string, std::string> reasons;
  const bool by_rails = has_rails(host);
  if (by_rails) reasons = fabric_exclusions(host.inspection->decision);
  std::vector<FabricPort> ports;
  for (const RdmaHca& hca : host.ports.hcas) {
    for (const RdmaPort& port : hca.ports) {
      FabricPort one{&hca, &port, fmt::format("{}:{}", hca.name, port.number), ""};
      const auto reason = reasons.find(one.label);
      if (reason != reasons.end()) {
        one.excluded = reason->second;
      } else {
        one.excluded = reason_of_inspection(host, one.label);
        if (one.excluded.empty() && is_iwarp(hca)) one.excluded = "iWARP, which NCCL does not use";
        if (one.excluded.empty() && by_rails) one.excluded = "NCCL is not offered it";
      }
      ports.push_back(std::move(one));
    }
  }
  return ports;
}

std::vector<FabricPort> judged_ports(const Host& host) {
  std::vector<FabricPort> ports = fabric_ports(host);
  std::erase_if(ports, [](const FabricPort& one) { return !one.excluded.empty(); });
  return ports;
}

Observation no_fabric_port(const Host& host) {
  if (host.ports.hcas.empty()) return nothing_on(host, "there is no RDMA port to look at");
  return ok("", "no RDMA port carries the traffic of GPUs");
}

std::string fabric_shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : topo::clean_text(text)) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

const RdmaNetdev* netdev_of(const Host& host, const RdmaPort& port) {
  if (port.netdevs.empty()) return nullptr;
  const auto found = host.ports.netdevs.find(port.netdevs.front());
  return found == host.ports.netdevs.end() ? nullptr : &found->second;
}

}  // namespace gdr::tools::doctor
