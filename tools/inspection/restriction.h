// What the user's choice of ports and rails does to a machine, and what it costs: NCCL_IB_HCA and
// GDR_NCCL_RAIL_MAP.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/config/options.h"
#include "plugin/discovery/discovery.h"
#include "tools/inspection/inspect_settings.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {

struct Restriction {
  std::vector<std::string> ports;  // what would be rails without the choice: "mlx5_2:1"
  std::vector<size_t> gpus;        // those that lose by it
};

// Returns the part of a rail that is the GPU's: a half where two GPUs use one rail, 2 for two rails
// of its own.
double share_of(const topology::RailPlan& plan, size_t gpu);

// Shares are sums of fractions: a difference up to this is none.
inline constexpr double kShareRounding = 1e-6;

// Compares the decision with the one without the user's choice. A GPU loses where its own rail is
// farther away, or its share of rails is smaller. GPUs are the same in both.
Restriction restriction_of(const topology::PredictedRails& chosen,
                           const topology::PredictedRails& free);

// Returns what the user's choice costs: "NCCL_IB_HCA=^mlx5_3 leaves out mlx5_3:1, so that rails are
// farther away, or shared by more GPUs". Inspection::unrestricted has a value.
std::string restriction_text(const Inspection& inspection);

// Fills Inspection::unrestricted and restricted_by; `all` is the machine with all of its ports.
void decide_unrestricted(const topology::Machine& all, const config::Options& settings,
                         Inspection* inspection);

// Removes from `machine`, of a file or of sysfs, what the list does not accept and what the plugin
// cannot use; from `all`, which is the same machine, only what it cannot use if no list names it.
// Returns what `machine` lost. NCCL_IB_HCA names HCAs as verbs does: those without such a name are
// accepted, with a note. `sysfs_root` is "" for a file, in which PCI IDs show what cannot be used.
std::vector<discovery::SkippedPort> remove_unused(const std::filesystem::path& sysfs_root,
                                                  const InspectSettings& settings,
                                                  topology::Machine* machine,
                                                  topology::Machine* all, Findings* findings);

// Whether some port is left out by the list.
bool has_excluded(const std::vector<discovery::SkippedPort>& skipped);

// Adds what the list does on the machine that may not be meant, as HcaFilter::findings_on() has it.
void add_list_findings(const topology::Machine& all, const InspectSettings& settings,
                       Findings* findings);

}  // namespace gdr::tools::topo
