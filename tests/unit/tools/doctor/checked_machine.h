// A machine of eight GPUs and four HCAs without a fault, and what is found on changes of it.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {

// Eight GPUs with NVLinks, and four HCAs that register GPU memory.
inline Machine good_machine() {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  for (Hca& hca : machine.hcas) hca.gpudirect = true;
  return machine;
}

// The state of every function of a good machine, as a privileged process reads it.
inline topo::PciStates good_states(const Machine& machine) {
  topo::PciStates states;
  const topo::PciState gpu{{32, 16}, uint64_t{1} << 37};
  const topo::PciState hca{{32, 16}, uint64_t{1} << 25};
  for (const Gpu& one : machine.gpus) states[one.bdf] = gpu;
  for (const Hca& one : machine.hcas) states[*one.bdf] = hca;
  for (const topology::Switch& one : machine.switches) states[one.bdf] = {{16, 16}, 0};
  return states;
}

// "kind: subject: text. Fix: fix" of each. Faults of one device often make NCCL choose another HCA,
// which has tests of its own: these consequences alone, or without them.
inline std::vector<std::string> found_in(const topo::Inspection& inspection,
                                         const topo::PciStates& states = {},
                                         bool consequences = false) {
  Host host;
  host.file = "topology.xml";  // of the machine that the tests run on nothing is looked at
  host.inspection = inspection;
  host.pci_states = states;
  judge_topology(&host);
  std::vector<std::string> texts;
  for (const Finding& one : host.findings) {
    const bool is_consequence =
        one.kind == FindingKind::kNcclChoice || one.kind == FindingKind::kNcclFails;
    if (is_consequence != consequences) continue;
    texts.push_back(std::string(id_of(one.kind)) + ": " + to_string(one));
  }
  return texts;
}

inline std::vector<std::string> found_on(Machine machine, const topo::PciStates& states = {},
                                         const topology::nccl::Settings& settings = {}) {
  return found_in({topology::scene_of(std::move(machine), settings), {}, "/sys"}, states);
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

// A host with the good machine.
class InspectedHost : public MadeHost {
 public:
  InspectedHost() { set(good_machine()); }

  void set(Machine machine, const topology::nccl::Settings& settings = {}) {
    host.pci_states = good_states(machine);
    host.inspection = topo::Inspection{topology::scene_of(std::move(machine), settings)};
  }
};

// A host with the good machine, changed.
inline auto changed(std::function<void(Machine*)> change,
                    const topology::nccl::Settings& settings = {}) {
  return [=](InspectedHost* made) {
    Machine machine = good_machine();
    change(&machine);
    made->set(std::move(machine), settings);
  };
}

using InspectedCase = CheckCase<InspectedHost>;

// Each check of the topology has nothing to say without a GPU, and knows nothing without a
// topology.
inline const InspectedCase kNoGpuCase = {
    "no GPU", changed([](Machine* machine) { machine->gpus.clear(); }), Verdict::kNothing};
inline const InspectedCase kAbsentGpusCase = {
    "GPUs of another machine's topology file",
    changed([](Machine* machine) { machine->nccl_file = true; }), Verdict::kUnknown, "",
    "and not of this machine"};
inline const InspectedCase kNoHcaCase = {
    "no HCA", changed([](Machine* machine) { machine->hcas.clear(); }), Verdict::kNothing};
inline const InspectedCase kNoTopologyCase = {
    "no topology", [](InspectedHost* made) { made->host.inspection.reset(); }, Verdict::kUnknown};

}  // namespace gdr::tools::doctor
