#include "topology/live/read_machine.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "topology/builder.h"
#include "topology/live/stated_facts.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

// hwloc reads /sys only, or what HWLOC_FSROOT names, which may be of another machine.
Result<Machine> read_by_hwloc(const ReadOptions& options) {
  if (options.sysfs_root != "/sys") return fail(Code::kUnsupported, "hwloc reads /sys only");
  if (std::getenv("HWLOC_FSROOT") != nullptr) {
    return fail(Code::kInvalidUsage, "HWLOC_FSROOT is set, so hwloc would show another machine");
  }
  return hwloc_live(options.selection);
}

// hwloc takes some 10 ms, sysfs less than 1 ms. Only GPUs need what hwloc knows beyond sysfs, so a
// machine without GPUs is read from sysfs alone.
Machine read_live(const ReadOptions& options, Findings* findings) {
  Result<Machine> by_sysfs = sysfs_machine(options.sysfs_root, options.selection);
  if (by_sysfs && by_sysfs->gpus.empty()) return std::move(*by_sysfs);
  Result<Machine> by_hwloc = read_by_hwloc(options);
  if (by_hwloc && !by_hwloc->gpus.empty()) return std::move(*by_hwloc);
  if (by_sysfs) {
    findings->push_back({FindingKind::kSysfsAlone, Severity::kInfo, "",
                         "the machine is read from sysfs alone: " +
                             (by_hwloc ? "hwloc shows no GPU" : by_hwloc.error().text),
                         ""});
    return std::move(*by_sysfs);
  }
  if (by_hwloc) return std::move(*by_hwloc);
  findings->push_back({FindingKind::kTopologyUnknown, Severity::kWarning, "",
                       "the machine's topology is unknown, and rails are in order of names: " +
                           by_sysfs.error().text,
                       "give NCCL_TOPO_FILE the name of a topology file"});
  return Machine{};
}

Attachment attach(Machine* machine, const std::filesystem::path& link) {
  std::error_code ignored;
  return attach(machine, pci_position(std::filesystem::canonical(link, ignored)));
}

// Takes from `live` what the file lacks about the CPU, as NCCL does: family and model together.
void complete(Cpu* cpu, const Cpu& live) {
  if (cpu->arch.empty()) cpu->arch = live.arch;
  if (cpu->arch != live.arch) return;
  if (cpu->vendor.empty()) cpu->vendor = live.vendor;
  if (cpu->family != 0) return;
  cpu->family = live.family;
  cpu->model = live.model;
}

const Gpu* gpu_at(const Machine& machine, const Bdf& bdf) {
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.bdf == bdf) return &gpu;
  }
  return nullptr;
}

// NCCL adds the GPUs that its topology file lacks and drops those of the file that are not present
// (ncclTopoGetSystem). Where sysfs shows no GPU at all, the file is taken as it is.
void reconcile_gpus(Machine* machine, const Machine& live, const ReadOptions& options) {
  if (live.gpus.empty()) return;
  std::erase_if(machine->gpus, [&](const Gpu& gpu) { return gpu_at(live, gpu.bdf) == nullptr; });
  for (Gpu& gpu : machine->gpus) complete_function(&gpu, *gpu_at(live, gpu.bdf));
  for (Gpu gpu : live.gpus) {
    if (gpu_at(*machine, gpu.bdf) != nullptr) continue;
    gpu.at = attach(machine, options.sysfs_root / "bus" / "pci" / "devices" / gpu.bdf.to_string());
    machine->gpus.push_back(std::move(gpu));
    machine->gpu_links_known = false;  // the NVLinks of the added GPU are unknown
  }
}

void mark_switches_above(const Machine& machine, const Attachment& at, std::vector<bool>* marked) {
  for (int one = at.parent; one >= 0; one = machine.switches[static_cast<size_t>(one)].at.parent) {
    (*marked)[static_cast<size_t>(one)] = true;
  }
}

// Returns whether NCCL reads each switch from sysfs, too: those above the GPUs that are present,
// and above the NICs that have no <net> in the file (ncclTopoFillGpu, ncclTopoFillNet and
// ncclTopoGetXmlFromSys in its src/graph/xml.cc).
std::vector<bool> switches_in_sysfs(const Machine& machine, const Machine& live) {
  std::vector<bool> marked(machine.switches.size());
  for (const Gpu& gpu : machine.gpus) {
    if (gpu_at(live, gpu.bdf) != nullptr) mark_switches_above(machine, gpu.at, &marked);
  }
  for (const Hca& hca : machine.hcas) {
    const bool present = std::any_of(live.hcas.begin(), live.hcas.end(), [&](const Hca& other) {
      return hca.bdf.has_value() && other.bdf == hca.bdf;
    });
    if (present && !hca.named) mark_switches_above(machine, hca.at, &marked);
  }
  return marked;
}

// Adds what the file lacks about its switches, with the links between those of Broadcom.
void complete_switches(Machine* machine, const Machine& live,
                       const std::filesystem::path& sysfs_root) {
  const std::vector<bool> in_sysfs = switches_in_sysfs(*machine, live);
  for (size_t i = 0; i < machine->switches.size(); ++i) {
    Switch& one = machine->switches[i];
    if (!in_sysfs[i]) continue;
    const auto function =
        pci_function(sysfs_root / "bus" / "pci" / "devices" / one.bdf.to_string());
    if (function) complete_function(&one, *function);
    add_peers(&one, sysfs_root);
  }
}

// Adds what the links of the file's ports run at.
void add_link_speeds(Machine* machine, const Machine& live) {
  for (Hca& hca : machine->hcas) {
    for (Port& port : hca.ports) {
      const Port* shown = find_port(live.hcas, hca.name, port.number);
      const bool is_active = shown != nullptr && shown->state == Port::State::kActive;
      port.link_mbps = is_active ? shown->speed_mbps : 0;
    }
  }
}

// Returns the machine of the file, with the devices that sysfs shows found by their addresses.
Result<Machine> read_file(const std::string& file, const ReadOptions& options) {
  Machine live = sysfs_machine(options.sysfs_root, options.selection).value_or(Machine{});
  Selection selection = options.selection;
  for (const Gpu& gpu : live.gpus) selection.known_gpus.push_back(gpu.bdf);
  for (const Hca& hca : live.hcas) {
    if (hca.bdf) selection.known_nics.push_back(*hca.bdf);
  }
  Result<Machine> machine = nccl_xml(file, selection);
  if (!machine) return machine;
  complete(&machine->cpu, live.cpu);
  reconcile_gpus(&*machine, live, options);
  complete_switches(&*machine, live, options.sysfs_root);
  add_link_speeds(&*machine, live);
  sort(&*machine);
  return machine;
}

void add_findings(const Machine& machine, const std::string& file, Findings* findings) {
  if (machine.hosts == 1) return;
  findings->push_back({FindingKind::kSeveralHosts, Severity::kWarning, "",
                       "rails are those of the first of " + std::to_string(machine.hosts) +
                           " hosts that " + file + " describes",
                       "give NCCL_TOPO_FILE a file of this host alone"});
}

}  // namespace

Machine read_machine(const ReadOptions& options, Findings* findings) {
  std::error_code ignored;
  bool by_default = options.topology_file.empty();
  std::string file = by_default ? options.default_topology_file : options.topology_file;
  const bool is_absent = by_default && !std::filesystem::exists(file, ignored);
  if (is_absent || file == kNoFile) return read_live(options, findings);
  Result<Machine> machine = read_file(file, options);
  if (!machine) {
    findings->push_back(
        {FindingKind::kTopologyFile, Severity::kWarning, "",
         "rails are by the machine itself, not by NCCL's topology file: " + machine.error().text,
         "correct the file or unset NCCL_TOPO_FILE"});
    for (Finding& one : nccl_file_findings(file)) {
      if (one.kind == FindingKind::kNcclFails) findings->push_back(std::move(one));
    }
    return read_live(options, findings);
  }
  add_findings(*machine, file, findings);
  return std::move(*machine);
}

}  // namespace gdr::topology
