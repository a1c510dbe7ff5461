#include "plugin/machine/hcas.h"

#include <algorithm>
#include <filesystem>

#include "topology/builder.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::plugin {
namespace {

using topology::Attachment;
using topology::Machine;

topology::Port port_of(const Device& device) {
  topology::Port port;
  port.number = device.port;
  port.state = device.state.active ? topology::Port::State::kActive : topology::Port::State::kDown;
  port.speed_mbps = device.state.speed_mbps;
  port.link_layer = device.state.ethernet ? topology::Port::LinkLayer::kEthernet
                                          : topology::Port::LinkLayer::kInfiniBand;
  return port;
}

// NCCL hangs what is on no PCI function on the first NUMA node.
Attachment first_numa_node(Machine* machine) {
  Attachment at;
  if (machine->numa_nodes.empty()) topology::numa_index(machine, -1);
  auto first = std::min_element(
      machine->numa_nodes.begin(), machine->numa_nodes.end(),
      [](const topology::NumaNode& a, const topology::NumaNode& b) { return a.id < b.id; });
  at.numa = static_cast<int>(first - machine->numa_nodes.begin());
  return at;
}

topology::Hca hca_at(Machine* machine, const std::filesystem::path& folder) {
  topology::Hca hca;
  if (auto function = topology::pci_function(folder)) {
    hca.class_code = function->class_code;
    hca.ids = function->ids;
    hca.link = function->link;
    hca.physical_function = function->physical_function;
  }
  topology::PciPosition position = topology::pci_position(folder);
  position.numa = topology::numa_node(folder);
  hca.at = topology::attach(machine, position);
  return hca;
}

// `before`: the machine's HCAs as its source had them, which knows more of PCI than verbs do.
topology::Hca make_hca(Machine* machine, const std::vector<topology::Hca>& before,
                       const Device& device, bool peermem) {
  topology::Hca hca;
  auto place = topology::pci_place(device.hca->sysfs_path());
  if (place.has_value()) {
    auto known = std::find_if(before.begin(), before.end(),
                              [&](const topology::Hca& one) { return one.bdf == place->bdf; });
    if (known != before.end()) {
      hca = *known;
    } else {
      hca = hca_at(machine, place->sysfs_path);
    }
    hca.bdf = place->bdf;
  } else {
    hca.at = first_numa_node(machine);
  }
  hca.name = device.hca->name();
  hca.guid = device.hca->guid();
  hca.gpudirect = device.hca->supports_dmabuf() || peermem;
  hca.ports.clear();
  return hca;
}

}  // namespace

void put_hcas(Machine* machine, const std::vector<Device>& ports, bool peermem) {
  std::vector<topology::Hca> before = std::move(machine->hcas);
  machine->hcas.clear();
  for (const Device& device : ports) {
    auto known =
        std::find_if(machine->hcas.begin(), machine->hcas.end(),
                     [&](const topology::Hca& hca) { return hca.name == device.hca->name(); });
    if (known == machine->hcas.end()) {
      known = machine->hcas.insert(known, make_hca(machine, before, device, peermem));
    }
    known->ports.push_back(port_of(device));
  }
  topology::sort(machine);
}

void keep_accepted(Machine* machine, const HcaFilter& filter) {
  for (topology::Hca& hca : machine->hcas) {
    std::erase_if(hca.ports, [&](const topology::Port& port) {
      return !filter.accepts(hca.name, port.number);
    });
  }
  std::erase_if(machine->hcas, [](const topology::Hca& hca) { return hca.ports.empty(); });
}

topology::PortRef find_port(const Machine& machine, const std::string& hca, int port) {
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    if (machine.hcas[i].name != hca) continue;
    for (size_t j = 0; j < machine.hcas[i].ports.size(); ++j) {
      if (machine.hcas[i].ports[j].number == port) {
        return topology::PortRef{static_cast<int>(i), static_cast<int>(j)};
      }
    }
  }
  return topology::PortRef{-1, -1};
}

std::string merged_path(const std::string& sysfs_path) {
  std::filesystem::path path = sysfs_path;
  auto bdf = topology::Bdf::parse(path.filename().string());
  if (!bdf.has_value()) return sysfs_path;
  bdf->device = 0;
  bdf->function = 0;
  std::filesystem::path merged = path.parent_path() / bdf->to_string();
  std::error_code error;
  return std::filesystem::exists(merged, error) ? merged.string() : sysfs_path;
}

}  // namespace gdr::plugin
