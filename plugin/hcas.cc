#include "plugin/hcas.h"

#include <algorithm>
#include <filesystem>

#include "topology/builder.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::plugin {
namespace {

using topology::Attachment;
using topology::Machine;

topology::Port port_of(const transport::Device& device) {
  topology::Port port;
  port.number = device.port;
  port.state = device.state.active ? topology::Port::State::kActive : topology::Port::State::kDown;
  port.speed_mbps = device.state.speed_mbps;
  port.link_layer = device.state.ethernet ? topology::Port::LinkLayer::kEthernet
                                          : topology::Port::LinkLayer::kInfiniBand;
  return port;
}

// The HCA as the machine's source has it, which knows more of PCI than verbs do. NCCL looks in its
// file for the name first.
const topology::Hca* find_known(const std::vector<topology::Hca>& before, const std::string& name,
                                const topology::Bdf& bdf) {
  for (const topology::Hca& one : before) {
    if (one.name == name) return &one;
  }
  for (const topology::Hca& one : before) {
    if (one.bdf == bdf) return &one;
  }
  return nullptr;
}

topology::Hca make_hca(Machine* machine, const std::vector<topology::Hca>& before,
                       const transport::Device& device,
                       const transport::RegistrationPaths& allowed) {
  topology::Hca hca;
  if (auto place = topology::pci_place(device.hca->sysfs_path())) {
    const topology::Hca* known = find_known(before, device.hca->name(), place->bdf);
    if (known != nullptr) {
      hca = *known;
    } else {
      hca.at = topology::attach(machine, topology::pci_position(place->sysfs_path));
    }
    topology::fill_function(&hca, *place);
  } else {
    if (machine->numa_nodes.empty()) topology::numa_index(machine, -1);
    hca.at = topology::attach_without_pci(*machine);
  }
  hca.gpudirect = gdr_support(*device.hca, allowed).any() &&
                  hca.gpudirect.value_or(true);  // a NCCL file may say no
  hca.name = device.hca->name();
  hca.guid = device.hca->guid();
  hca.ports.clear();
  return hca;
}

// A network controller of the same vendor: another function of the same card.
bool is_of_the_same_card(const std::filesystem::path& one, const std::filesystem::path& other) {
  auto a = topology::pci_function(one), b = topology::pci_function(other);
  return a.has_value() && b.has_value() && b->class_code >> 16 == 0x02 &&
         a->ids.vendor == b->ids.vendor;
}

}  // namespace

transport::RegistrationPaths allowed_paths(const config::Options& options) {
  transport::RegistrationPaths ways = options.gpu_memory;
  ways.dmabuf = ways.dmabuf && options.dmabuf_enable;
  return ways;
}

GdrSupport gdr_support(const transport::HcaContext& hca,
                       const transport::RegistrationPaths& allowed) {
  bool peermem = allowed.peermem && transport::is_present(hca.peermem());
  return {allowed.dmabuf && hca.supports_dmabuf(), peermem || allowed.only_staging()};
}

void replace_hcas(Machine* machine, const std::vector<transport::Device>& ports,
                  const transport::RegistrationPaths& allowed) {
  std::vector<topology::Hca> before = std::move(machine->hcas);
  machine->hcas.clear();
  for (const transport::Device& device : ports) {
    auto known =
        std::find_if(machine->hcas.begin(), machine->hcas.end(),
                     [&](const topology::Hca& hca) { return hca.name == device.hca->name(); });
    if (known == machine->hcas.end()) {
      known = machine->hcas.insert(known, make_hca(machine, before, device, allowed));
    }
    known->ports.push_back(port_of(device));
  }
  topology::sort(machine);
}

void keep_accepted(Machine* machine, const transport::HcaFilter& filter) {
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

std::string merged_path(const std::string& sysfs_path, bool merge_functions) {
  std::filesystem::path path = sysfs_path;
  auto bdf = topology::Bdf::parse(path.filename().string());
  if (!bdf.has_value()) return sysfs_path;
  if (merge_functions) bdf->device = 0;
  bdf->function = 0;
  std::filesystem::path merged = path.parent_path() / bdf->to_string();
  return is_of_the_same_card(path, merged) ? merged.string() : sysfs_path;
}

}  // namespace gdr::plugin
