#include "topology/live/read_machine.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "topology/builder.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

// Unless hwloc is told to show another machine.
Result<Machine> read_by_hwloc(const Selection& selection, const MachineSources& sources) {
  if (sources.sysfs_root != "/sys") return fail(Code::kUnsupported, "hwloc reads /sys only");
  if (std::getenv("HWLOC_FSROOT") != nullptr) {
    return fail(Code::kInvalidUsage, "HWLOC_FSROOT is set, so hwloc would show another machine");
  }
  return hwloc_live(selection);
}

// hwloc costs some 10 ms, sysfs less than one: on a machine without GPUs there is nothing
// to ask it.
Machine read_live(const Selection& selection, const MachineSources& sources, Notes* notes) {
  Result<Machine> by_sysfs = sysfs_machine(sources.sysfs_root, selection);
  if (by_sysfs && by_sysfs->gpus.empty()) return std::move(*by_sysfs);
  Result<Machine> by_hwloc = read_by_hwloc(selection, sources);
  if (by_hwloc && !by_hwloc->gpus.empty()) return std::move(*by_hwloc);
  if (by_sysfs) {
    notes->infos.push_back("the machine is read from sysfs alone: " +
                           (by_hwloc ? "hwloc shows no GPU" : by_hwloc.error().text));
    return std::move(*by_sysfs);
  }
  if (by_hwloc) return std::move(*by_hwloc);
  notes->warnings.push_back("the machine's shape is not known, and rails are in order of names: " +
                            by_sysfs.error().text);
  return Machine{};
}

Attachment attach(Machine* machine, const std::filesystem::path& link) {
  std::error_code ignored;
  return attach(machine, pci_position(std::filesystem::canonical(link, ignored)));
}

// NCCL adds to the file's machine what the file does not have, and leaves out GPUs that are not
// there. Where nothing is known of the machine itself (no /sys), the file stands alone.
void reconcile_gpus(Machine* machine, const Selection& selection,
                    const std::filesystem::path& sysfs_root) {
  Result<Machine> sysfs = sysfs_machine(sysfs_root, selection);
  if (!sysfs || sysfs->gpus.empty()) return;
  const Machine& live = *sysfs;
  auto has = [](const Machine& one, const Bdf& bdf) {
    return std::any_of(one.gpus.begin(), one.gpus.end(),
                       [&](const Gpu& gpu) { return gpu.bdf == bdf; });
  };
  std::erase_if(machine->gpus, [&](const Gpu& gpu) { return !has(live, gpu.bdf); });
  for (Gpu gpu : live.gpus) {
    if (has(*machine, gpu.bdf)) continue;
    gpu.at = attach(machine, sysfs_root / "bus" / "pci" / "devices" / gpu.bdf.to_string());
    machine->gpus.push_back(std::move(gpu));
    machine->gpu_links_known = false;  // of this one nothing is known
  }
}

}  // namespace

Selection selection_of(const config::Options& options) {
  Selection selection;
  if (options.test_gpu_vendor != 0) {
    selection.gpu_vendors.push_back(static_cast<uint16_t>(options.test_gpu_vendor));
  }
  return selection;
}

Machine read_machine(const config::Options& options, Notes* notes, const MachineSources& sources) {
  Selection selection = selection_of(options);
  std::error_code ignored;
  bool by_default = options.topology_file.empty();
  std::string file = by_default ? sources.default_topology_file : options.topology_file;
  if (by_default && !std::filesystem::exists(file, ignored)) {
    return read_live(selection, sources, notes);
  }
  Result<Machine> machine = nccl_xml(file, selection);
  if (!machine) {
    notes->warnings.push_back("rails are by the machine itself, not by NCCL's topology file: " +
                              machine.error().text);
    return read_live(selection, sources, notes);
  }
  reconcile_gpus(&*machine, selection, sources.sysfs_root);
  sort(&*machine);
  return std::move(*machine);
}

}  // namespace gdr::topology
