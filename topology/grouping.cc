#include "topology/grouping.h"

#include <algorithm>
#include <set>

namespace gdr::topology {
namespace {

// GPUs with the same rails.
struct Group {
  std::set<int> rails;
  std::vector<size_t> gpus;
};

std::vector<Group> groups_of(const RailPlan& plan) {
  std::vector<Group> groups;
  for (size_t i = 0; i < plan.gpus.size(); ++i) {
    const std::vector<int>& own = plan.gpus[i].rails;
    if (own.empty()) continue;
    std::set<int> rails(own.begin(), own.end());
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& group) { return group.rails == rails; });
    if (found == groups.end()) found = groups.insert(groups.end(), Group{rails, {}});
    found->gpus.push_back(i);
  }
  return groups;
}

// Returns the group of each HCA: the first in which it is some GPU's first rail, else the first in
// which it is any rail, else -1.
std::vector<int> groups_of_hcas(const Machine& machine, const RailPlan& plan,
                                const std::vector<Group>& groups) {
  std::vector<int> group_of(machine.hcas.size(), -1);
  auto take = [&](int rail, size_t group) {
    int& taken = group_of[plan.rails[rail].port.hca];
    if (taken < 0) taken = static_cast<int>(group);
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t gpu : groups[i].gpus) take(plan.gpus[gpu].rails.front(), i);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    for (int rail : groups[i].rails) take(rail, i);
  }
  return group_of;
}

// Returns ffff:ff:01.0, ffff:ff:02.0 and so on, later with other functions and buses.
Bdf invented_address(size_t slot) {
  return Bdf{0xffff, static_cast<uint8_t>(0xff - slot / 256), static_cast<uint8_t>(slot % 32),
             static_cast<uint8_t>(slot / 32 % 8)};
}

// Returns an address that no switch has. The topology files of clouds have invented ones, too.
Bdf free_address(const Machine& machine) {
  auto taken = [&](const Bdf& bdf) {
    return std::any_of(machine.switches.begin(), machine.switches.end(),
                       [&](const Switch& one) { return one.bdf == bdf; });
  };
  size_t slot = 1;
  while (taken(invented_address(slot))) ++slot;
  return invented_address(slot);
}

// Adds the group's switch, moves the GPUs there, and returns the index of the switch.
int move_gpus(Machine* machine, const Group& group) {
  const Gpu& first = machine->gpus[group.gpus.front()];
  Switch made;
  made.bdf = free_address(*machine);
  made.at = Attachment{-1, first.at.numa, first.at.host_bridge};
  made.link = first.link;  // NCCL assumes that a link of unknown speed is slow
  Attachment at = made.at;
  at.parent = static_cast<int>(machine->switches.size());
  machine->switches.push_back(made);
  for (size_t gpu : group.gpus) machine->gpus[gpu].at = at;
  return at.parent;
}

// Drops those of the first `count` switches that have no device below them.
void drop_empty(Machine* machine, size_t count) {
  std::vector<bool> needed(machine->switches.size(), false);
  auto need = [&](const Attachment& at) {
    for (int i = at.parent; i >= 0 && !needed[i]; i = machine->switches[i].at.parent) {
      needed[i] = true;
    }
  };
  for (const Gpu& gpu : machine->gpus) need(gpu.at);
  for (const Hca& hca : machine->hcas) need(hca.at);
  std::vector<int> renumbered(machine->switches.size(), -1);
  std::vector<Switch> kept;
  for (size_t i = 0; i < machine->switches.size(); ++i) {
    if (i < count && !needed[i]) continue;
    renumbered[i] = static_cast<int>(kept.size());
    kept.push_back(machine->switches[i]);
  }
  machine->switches = std::move(kept);
  for_each_attachment(machine, [&](Attachment* at) {
    if (at->parent >= 0) at->parent = renumbered[at->parent];
  });
}

}  // namespace

Machine group_under_switches(const Machine& machine, const RailPlan& plan) {
  Machine grouped = machine;
  std::vector<Group> groups = groups_of(plan);
  std::vector<int> group_of = groups_of_hcas(machine, plan, groups);
  std::vector<int> switches;
  for (const Group& group : groups) switches.push_back(move_gpus(&grouped, group));
  for (size_t i = 0; i < grouped.hcas.size(); ++i) {
    if (group_of[i] < 0) continue;
    grouped.hcas[i].at = grouped.switches[switches[group_of[i]]].at;
    grouped.hcas[i].at.parent = switches[group_of[i]];
  }
  drop_empty(&grouped, machine.switches.size());
  sort(&grouped);
  return grouped;
}

}  // namespace gdr::topology
