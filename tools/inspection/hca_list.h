// What the user's list of HCAs, NCCL_IB_HCA, does to the ports of a machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "tools/inspection/inspect_settings.h"
#include "topology/model.h"

namespace gdr::tools::topo {

// Removes from `machine`, of a file or of sysfs, what the list does not accept and what the plugin
// cannot use; from `all`, which is the same machine, only what it cannot use if no list names it.
// Returns what `machine` lost. NCCL_IB_HCA names HCAs as verbs does: those without such a name are
// accepted, with a note. `sysfs_root` is "" for a file, in which PCI IDs show what cannot be used.
std::vector<transport::SkippedPort> remove_unused(const std::filesystem::path& sysfs_root,
                                                  const InspectSettings& settings,
                                                  topology::Machine* machine,
                                                  topology::Machine* all, Findings* findings);

// Whether some port is left out by the list.
bool has_excluded(const std::vector<transport::SkippedPort>& skipped);

// Adds what the list does on the machine that may not be meant, as HcaFilter::findings_on() has it.
void add_list_findings(const topology::Machine& all, const InspectSettings& settings,
                       Findings* findings);

}  // namespace gdr::tools::topo
