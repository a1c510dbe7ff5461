#include "topology/live/verbs_ports.h"

#include <algorithm>

#include "topology/builder.h"
#include "topology/live/stated_facts.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::topology {
namespace {

Port make_port(const VerbsPort& verbs) {
  Port port;
  port.number = verbs.number;
  port.state = verbs.active ? Port::State::kActive : Port::State::kDown;
  port.speed_mbps = verbs.speed_mbps;
  port.link_layer = verbs.ethernet ? Port::LinkLayer::kEthernet : Port::LinkLayer::kInfiniBand;
  return port;
}

// Returns the HCA that a source lists by the port's name. NCCL's net_ib and the plugin report the
// Data Direct function by a name of its own, by which NCCL looks it up in its topology file.
const Hca* find_named(const std::vector<Hca>& listed, const VerbsPort& port, bool nccl_file) {
  for (const Hca& one : listed) {
    if (one.name != port.hca) continue;
    if (!nccl_file || one.data_direct == !port.data_path.empty()) return &one;
  }
  return nullptr;
}

// The HCA as the machine's source lists it: by name first, as NCCL looks it up.
const Hca* find_listed(const std::vector<Hca>& listed, const VerbsPort& port, const Bdf& bdf) {
  const Hca* named = find_named(listed, port, true);
  if (named != nullptr) return named;
  for (const Hca& one : listed) {
    if (one.bdf == bdf) return &one;
  }
  return nullptr;
}

std::optional<PciLocation> location_of(const VerbsPort& port) {
  if (!port.data_path.empty()) {
    if (auto location = pci_location_of_function(port.data_path)) return location;
  }
  return pci_location(port.sysfs_path);
}

// Takes back what the file states about the function.
void keep_stated(Hca stated, Hca* hca) {
  complete_function(&stated, *hca);
  hca->class_code = stated.class_code;
  hca->ids = stated.ids;
  hca->link = stated.link;
}

Hca make_hca(Machine* machine, const std::vector<Hca>& listed, const VerbsPort& port) {
  Hca hca;
  if (auto location = location_of(port)) {
    const Hca* known = find_listed(listed, port, location->bdf);
    if (known != nullptr) {
      hca = *known;
    } else {
      hca.at = attach(machine, pci_position(location->sysfs_path));
    }
    fill_function(&hca, *location);
    if (machine->nccl_file && known != nullptr) keep_stated(*known, &hca);
  } else {
    if (machine->numa_nodes.empty()) numa_index(machine, -1);
    hca.at = attach_without_pci(*machine);
  }
  hca.gpudirect =
      port.gpudirect && hca.gpudirect.value_or(true);  // NCCL's topology file may deny it (gdr="0")
  hca.name = port.hca;
  hca.named = true;
  hca.guid = port.guid;
  hca.ports.clear();
  return hca;
}

// Returns what the machine's source has for the port.
Port listed_port(const Machine& machine, const std::vector<Hca>& listed, const VerbsPort& verbs) {
  const Hca* hca = find_named(listed, verbs, machine.nccl_file);
  for (const Port& port : hca != nullptr ? hca->ports : std::vector<Port>{}) {
    if (port.number == verbs.number) return port;
  }
  return Port{};
}

}  // namespace

void replace_hcas(Machine* machine, const std::vector<VerbsPort>& ports) {
  std::vector<Hca> listed = std::move(machine->hcas);
  machine->hcas.clear();
  for (const VerbsPort& port : ports) {
    auto known = std::find_if(machine->hcas.begin(), machine->hcas.end(),
                              [&](const Hca& hca) { return hca.name == port.hca; });
    if (known == machine->hcas.end()) {
      known = machine->hcas.insert(known, make_hca(machine, listed, port));
    }
    known->ports.push_back(make_port(port));
    const Port source = listed_port(*machine, listed, port);
    Port& added = known->ports.back();
    added.order = source.order;
    // Verbs libraries before XDR have no code for its speed, but sysfs has.
    if (added.speed_mbps == 0 && port.active && !machine->nccl_file) {
      added.speed_mbps = source.speed_mbps;
    }
    // NCCL keeps the speed that its topology file states (xmlInitAttrInt in src/graph/topo.cc).
    if (machine->nccl_file && source.speed_mbps > 0) {
      added.link_mbps = added.speed_mbps > 0 ? added.speed_mbps : source.link_mbps;
      added.speed_mbps = source.speed_mbps;
    }
  }
  sort(machine);
}

void keep_accepted(Machine* machine, const std::function<bool(const Hca&, int)>& accepts) {
  for (Hca& hca : machine->hcas) {
    std::erase_if(hca.ports, [&](const Port& port) { return !accepts(hca, port.number); });
  }
  std::erase_if(machine->hcas, [](const Hca& hca) { return hca.ports.empty(); });
}

}  // namespace gdr::topology
