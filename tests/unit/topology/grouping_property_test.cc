// Invariants of a grouped machine, checked on random ones.
#include <gmock/gmock.h>

#include <set>
#include <utility>

#include "tests/unit/topology/random_tree.h"
#include "tools/prediction/prediction.h"
#include "topology/grouping.h"
#include "topology/grouping_check.h"
#include "topology/rails.h"

namespace gdr::topology {
namespace {

constexpr unsigned kUniformMachines = 400;

// A machine with HCAs of one port of one speed, all up, and links of one speed, so that NCCL's
// choice depends on distance alone.
Machine uniform_machine(unsigned seed) {
  Machine machine = RandomTree(seed).machine();
  machine.cpu = Cpu{"x86_64", "GenuineIntel", 6, 143};
  const PciLink link{32, 16};
  for (Switch& one : machine.switches) one.link = link;
  for (Gpu& gpu : machine.gpus) {
    gpu.link = link;
    gpu.c2c_links = 0;
    gpu.compute_capability = 90;
  }
  std::erase_if(machine.hcas, [](const Hca& hca) { return !hca.bdf.has_value(); });
  for (Hca& hca : machine.hcas) {
    hca.link = link;
    hca.ports = {Port{1, Port::State::kActive, 200000, Port::LinkLayer::kInfiniBand}};
  }
  sort(&machine);
  return machine;
}

struct GroupedMachine {
  explicit GroupedMachine(unsigned seed)
      : machine(uniform_machine(seed)),
        plan(*plan_rails(machine, PathTable(machine), {})),
        grouped(group_under_switches(machine, plan)) {}

  // Returns the outermost switch above the GPU, or its NUMA node where there is none.
  std::pair<int, int> tree_of(size_t gpu) const {
    const Attachment& at = machine.gpus[gpu].at;
    int top = at.parent;
    while (top >= 0 && machine.switches[top].at.parent >= 0) top = machine.switches[top].at.parent;
    return {top, top < 0 ? at.numa : -1};
  }
  // Returns whether the GPUs that share a rail with this one can all be near to it: they are below
  // one outermost switch, or below none on one NUMA node, and have the same rails.
  bool can_show(size_t gpu) const {
    const std::vector<int>& own = plan.gpus[gpu].rails;
    for (size_t other = 0; other < plan.gpus.size(); ++other) {
      const std::vector<int>& rails = plan.gpus[other].rails;
      const std::set<int> both(rails.begin(), rails.end());
      const bool shares =
          std::any_of(own.begin(), own.end(), [&](int rail) { return both.count(rail) > 0; });
      if (shares && tree_of(other) != tree_of(gpu)) return false;
      if (shares && both != std::set<int>(own.begin(), own.end())) return false;
    }
    return !own.empty();
  }

  Machine machine;
  RailPlan plan;
  Machine grouped;
};

TEST(GroupedMachine, GpusThatAreNear_StayNear) {
  using Classes = std::pair<PathClass, PathClass>;
  const std::set<Classes> allowed = {{PathClass::kPix, PathClass::kPxb},
                                     {PathClass::kPxb, PathClass::kPix},
                                     {PathClass::kPhb, PathClass::kPix}};
  std::set<Classes> seen;
  for (unsigned seed = 0; seed < kUniformMachines; ++seed) {
    const GroupedMachine one(seed);
    for (const ClassChange& change : class_changes(one.machine, one.grouped)) {
      if (change.with == ClassChange::With::kHca) continue;
      seen.insert({change.was, change.is});
      ASSERT_EQ(allowed.count({change.was, change.is}), 1u)
          << "seed " << seed << ": GPU" << change.gpu << " and GPU" << change.other << " from "
          << to_string(change.was) << " to " << to_string(change.is);
    }
  }
  EXPECT_EQ(seen, allowed);
}

TEST(GroupedMachine, Nccl_UsesTheRailsOfEachGpuThatTheTreeCanShow) {
  int followed = 0, different = 0;
  for (unsigned seed = 0; seed < kUniformMachines / 2; ++seed) {
    const GroupedMachine one(seed);
    std::vector<PortRef> devices;
    for (const Rail& rail : one.plan.rails) devices.push_back(rail.port);
    const nccl::Prediction before(one.machine, devices, {}), after(one.grouped, devices, {});
    if (!after.failure().empty()) continue;
    for (size_t gpu = 0; gpu < one.machine.gpus.size(); ++gpu) {
      if (!one.can_show(gpu)) continue;
      const std::vector<int>& rails = one.plan.gpus[gpu].rails;
      const std::set<size_t> own(rails.begin(), rails.end());
      for (size_t device : after.devices_of_gpu(gpu)) {
        ASSERT_EQ(own.count(device), 1u)
            << "seed " << seed << ": GPU" << gpu << " uses device " << device;
      }
      for (size_t device : before.devices_of_gpu(gpu)) different += own.count(device) == 0 ? 1 : 0;
      ++followed;
    }
  }
  EXPECT_GT(followed, 500);
  EXPECT_GT(different, 100);  // the machines do need the file
}

}  // namespace
}  // namespace gdr::topology
