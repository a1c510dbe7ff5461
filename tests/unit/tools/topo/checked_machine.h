// Checks of a machine that has no fault, and of changes of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/topology/machines.h"
#include "tools/topo/check.h"
#include "tools/topo/checks.h"

namespace gdr::tools::topo {

// Eight GPUs with NVLinks, and four HCAs that register GPU memory.
inline Machine good_machine() {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  for (Hca& hca : machine.hcas) hca.gpudirect = true;
  return machine;
}

inline CheckReport report_on(Machine machine, const PciStates& states = {},
                             const topology::nccl::Settings& settings = {}) {
  const Inspection inspection{topology::scene_of(std::move(machine), settings), {}, "/sys"};
  return check_machine(inspection, states);
}

// Faults of one device often make NCCL choose another HCA, which has tests of its own.
inline bool is_consequence(const Finding& fault) {
  return fault.kind == FindingKind::kNcclChoice || fault.kind == FindingKind::kNcclFails;
}

// The faults as the tool prints them, without consequences.
inline std::vector<std::string> faults_of(const CheckReport& report) {
  std::vector<std::string> texts;
  for (const Finding& fault : report.faults) {
    if (is_consequence(fault)) continue;
    texts.push_back(std::string(id_of(fault.kind)) + ": " + to_string(fault));
  }
  return texts;
}

inline std::vector<std::string> faults_with(const std::function<void(Machine*)>& change) {
  Machine machine = good_machine();
  change(&machine);
  return faults_of(report_on(std::move(machine)));
}

// The state of every function of a good machine, as a privileged process reads it.
inline PciStates good_states(const Machine& machine) {
  PciStates states;
  const PciState gpu{{32, 16}, 512, uint64_t{1} << 37, "identity"};
  const PciState hca{{32, 16}, 4096, uint64_t{1} << 25, "identity"};
  for (const Gpu& one : machine.gpus) states[one.bdf] = gpu;
  for (const Hca& one : machine.hcas) states[*one.bdf] = hca;
  for (const Switch& one : machine.switches) states[one.bdf] = {{16, 16}, 128, 0, "identity"};
  return states;
}

inline std::vector<std::string> faults_with_state(
    const std::function<void(const Machine&, PciStates*)>& change) {
  const Machine machine = good_machine();
  PciStates states = good_states(machine);
  change(machine, &states);
  return faults_of(report_on(machine, states));
}

}  // namespace gdr::tools::topo
