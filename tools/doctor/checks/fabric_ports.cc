#include "tools/doctor/checks/fabric_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/finding.h"
#include "plugin/config/load.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/rdma_devices.h"
#include "topology/ports.h"

namespace gdr::tools::doctor {
namespace {

// The reason for which each port of the decision carries no GPU's traffic; "" for rails.
std::map<std::string, std::string> fabric_exclusions(const RailDecision& decision) {
  std::map<std::string, std::string> reasons;
  for (const topology::ExcludedPort& one : decision.plan.excluded) {
    reasons[topology::port_label(decision.machine, one.port)] = one.reason;
  }
  for (const topology::Rail& rail : decision.plan.rails) {
    reasons[topology::port_label(decision.machine, rail.port)] = "";
  }
  return reasons;
}

// What the inspection says of a port that it left out; null for others.
const discovery::SkippedPort* left_out(const Host& host, const std::string& label) {
  if (!host.inspection.has_value()) return nullptr;
  for (const discovery::SkippedPort& one : host.inspection->not_offered) {
    if (one.port == label) return &one;
  }
  return nullptr;
}

}  // namespace

std::string fault_of_kind(const Host& host, const RdmaHca& hca, const RdmaPort& port) {
  // Verbs may know more of the device than sysfs.
  const auto* one = left_out(host, fmt::format("{}:{}", hca.name, port.number));
  if (one != nullptr && one->kind == FindingKind::kHcaUnsupported) return one->reason;
  const config::Options options = config::load(host.environment, nullptr);
  return topo::unsupported_reason({hca.node_type, port.link_layer},
                                  options.hcas.entry_for(hca.name, port.number) != nullptr);
}

bool has_rails(const Host& host) {
  return host.inspection.has_value() && !machine_of(host).gpus.empty() &&
         !decision_of(host).plan.rails.empty();
}

std::vector<FabricPort> fabric_ports(const Host& host) {
  std::map<std::string, std::string> reasons;
  const bool by_rails = has_rails(host);
  if (by_rails) reasons = fabric_exclusions(decision_of(host));
  std::vector<FabricPort> ports;
  for (const RdmaHca& hca : host.ports.hcas) {
    for (const RdmaPort& port : hca.ports) {
      FabricPort one{&hca, &port, fmt::format("{}:{}", hca.name, port.number), ""};
      const auto reason = reasons.find(one.label);
      const std::string fault = fault_of_kind(host, hca, port);
      if (!fault.empty()) {
        one.excluded = "it " + split_fix(fault).text;
      } else if (reason != reasons.end()) {
        one.excluded = reason->second;
      } else {
        const discovery::SkippedPort* skipped = left_out(host, one.label);
        if (skipped != nullptr || by_rails) {
          one.excluded = skipped != nullptr ? skipped->reason : "NCCL is not offered it";
        }
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

const RdmaNetdev* netdev_of(const Host& host, const RdmaPort& port) {
  if (port.netdevs.empty()) return nullptr;
  const auto found = host.ports.netdevs.find(port.netdevs.front());
  return found == host.ports.netdevs.end() ? nullptr : &found->second;
}

std::map<std::string, std::string> uverbs_by_device(const Host& host) {
  std::map<std::string, std::string> found;
  for (const std::string& name : host.names("/sys/class/infiniband_verbs")) {
    const std::string device = host.line("/sys/class/infiniband_verbs/" + name + "/ibdev");
    if (!device.empty()) found[device] = name;
  }
  return found;
}

const DeviceFile* uverbs_file(const Host& host, const std::string& name) {
  if (!host.process.uverbs.has_value()) return nullptr;
  for (const DeviceFile& one : *host.process.uverbs) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

bool is_withheld(const Host& host, const std::string& name) {
  if (!host.process.uverbs.has_value()) return false;
  const DeviceFile* file = uverbs_file(host, name);
  const bool is_kept = file == nullptr ? is_in_container(host) : file->error == EPERM;
  const auto& files = *host.process.uverbs;
  return is_kept && std::any_of(files.begin(), files.end(),
                                [](const DeviceFile& one) { return one.error == 0; });
}

}  // namespace gdr::tools::doctor
