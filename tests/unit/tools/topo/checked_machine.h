// Checks of a machine that has no fault, and of changes of it.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/topology/machines.h"
#include "tools/topo/checks.h"

namespace gdr::tools::topo {

// Eight GPUs with NVLinks, and four HCAs that register GPU memory.
inline Machine good_machine() {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  for (Hca& hca : machine.hcas) hca.gpudirect = true;
  return machine;
}

// The state of every function of a good machine, as a privileged process reads it.
inline PciStates good_states(const Machine& machine) {
  PciStates states;
  const PciState gpu{{32, 16}, 512, uint64_t{1} << 37};
  const PciState hca{{32, 16}, 4096, uint64_t{1} << 25};
  for (const Gpu& one : machine.gpus) states[one.bdf] = gpu;
  for (const Hca& one : machine.hcas) states[*one.bdf] = hca;
  for (const Switch& one : machine.switches) states[one.bdf] = {{16, 16}, 128, 0};
  return states;
}

// Faults of one device often make NCCL choose another HCA, which has tests of its own.
inline bool is_consequence(const Finding& finding) {
  return finding.kind == FindingKind::kNcclChoice || finding.kind == FindingKind::kNcclFails;
}

// "kind: subject: text. Fix: fix" of each, without consequences.
inline std::vector<std::string> texts_of(const Findings& findings, bool consequences = false) {
  std::vector<std::string> texts;
  for (const Finding& one : findings) {
    if (is_consequence(one) != consequences) continue;
    texts.push_back(std::string(id_of(one.kind)) + ": " + to_string(one));
  }
  return texts;
}

inline std::vector<std::string> found_on(Machine machine, const PciStates& states = {},
                                         const topology::nccl::Settings& settings = {}) {
  const Inspection inspection{topology::scene_of(std::move(machine), settings), {}, "/sys"};
  return texts_of(check_machine(inspection, states));
}

// A change of the good machine, and parts of what is then found, each of one finding, in order.
struct Case {
  const char* name;
  std::function<void(Machine*)> change;
  std::vector<std::string> found;
};

inline void expect_found(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Machine machine = good_machine();
    one.change(&machine);
    const std::vector<std::string> found = found_on(std::move(machine));
    EXPECT_EQ(found.size(), one.found.size())
        << one.name << ": " << ::testing::PrintToString(found);
    for (size_t i = 0; i < std::min(found.size(), one.found.size()); ++i) {
      EXPECT_THAT(found[i], ::testing::HasSubstr(one.found[i])) << one.name;
    }
  }
}

}  // namespace gdr::tools::topo
