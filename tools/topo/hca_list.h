// What the user's list of HCAs, NCCL_IB_HCA or --hca, does to the ports of a machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "tools/topo/inspect_settings.h"
#include "topology/model.h"

namespace gdr::tools::topo {

// Whether the list accepts a port, by the HCA's name and the port's number.
using Accepts = std::function<bool(const std::string&, int)>;

// Returns what the list accepts of a machine in a file or in sysfs. NCCL_IB_HCA names HCAs as verbs
// does: those without such a name are accepted, with a note. But --hca names them as they are
// shown.
Accepts accepted_by(const topology::Machine& machine, const InspectSettings& settings,
                    Findings* findings);

// Returns the ports that are not accepted, as FindingKind::kHcaExcluded.
std::vector<transport::SkippedPort> excluded_by(const topology::Machine& machine,
                                                const Accepts& accepts);

// Whether some port is left out by the list.
bool has_excluded(const std::vector<transport::SkippedPort>& skipped);

// Adds what the list does on the machine that may not be meant, as HcaFilter::findings_on() has it.
void add_list_findings(const topology::Machine& all, const InspectSettings& settings,
                       Findings* findings);

std::string names_of_hcas(const topology::Machine& machine);  // "mlx5_0, mlx5_1"

// Fails with kInvalidUsage where a list given for --hca leaves nothing of the HCAs `existing`.
Status check_hca_list(const InspectOptions& asked, const std::string& existing,
                      const topology::Machine& machine);

}  // namespace gdr::tools::topo
