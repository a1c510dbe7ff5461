#include "topology/grouping.h"

#include <algorithm>
#include <set>
#include <utility>

#include "topology/physical_gpus.h"

namespace gdr::topology {
namespace {

// GPUs whose first rail is on one PCI function, and the HCAs that are to be near them.
struct Group {
  int key = -1;  // the first HCA on that function
  std::vector<size_t> gpus;
  std::vector<int> hcas;
};

// Returns the first HCA on the same PCI function: a function can only be moved as a whole.
int first_on_function(const Machine& machine, int hca) {
  if (!machine.hcas[hca].bdf.has_value()) return hca;
  for (int other = 0; other < hca; ++other) {
    if (machine.hcas[other].bdf == machine.hcas[hca].bdf) return other;
  }
  return hca;
}

// Returns the first HCAs on the functions of a GPU's rails, its own rail's first.
std::vector<int> functions_of(const Machine& machine, const RailPlan& plan, size_t gpu) {
  std::vector<int> all;
  for (int rail : plan.gpus[gpu].rails) {
    all.push_back(first_on_function(machine, plan.rails[rail].port.hca));
  }
  return all;
}

// Returns the groups without their HCAs, in the order of GPUs. The partitions of a split GPU go
// together, with the first of them that has a rail.
std::vector<Group> groups_of_gpus(const Machine& machine, const RailPlan& plan) {
  std::vector<Group> groups;
  for (const std::vector<size_t>& card : physical_gpus(machine)) {
    const auto gpu = std::find_if(card.begin(), card.end(),
                                  [&](size_t one) { return !plan.gpus[one].rails.empty(); });
    if (gpu == card.end()) continue;
    const int key = functions_of(machine, plan, *gpu).front();
    auto found = std::find_if(groups.begin(), groups.end(),
                              [key](const Group& group) { return group.key == key; });
    if (found == groups.end()) found = groups.insert(groups.end(), Group{key, {}, {}});
    found->gpus.insert(found->gpus.end(), card.begin(), card.end());
  }
  return groups;
}

// Returns the group that an HCA belongs to, or null: the one that it is the key of, else the first
// in which it carries a GPU's first rail, else the first in which it carries any.
Group* group_of_hca(const Machine& machine, const RailPlan& plan, int hca,
                    std::vector<Group>* groups) {
  const int key = first_on_function(machine, hca);
  for (Group& group : *groups) {
    if (group.key == key) return &group;
  }
  Group* any = nullptr;
  for (Group& group : *groups) {
    for (size_t gpu : group.gpus) {
      const std::vector<int> own = functions_of(machine, plan, gpu);
      if (!own.empty() && own.front() == key) return &group;
      const bool uses = std::find(own.begin(), own.end(), key) != own.end();
      if (uses && any == nullptr) any = &group;
    }
  }
  return any;
}

std::vector<Group> groups_of(const Machine& machine, const RailPlan& plan) {
  std::vector<Group> groups = groups_of_gpus(machine, plan);
  for (int hca = 0; hca < static_cast<int>(machine.hcas.size()); ++hca) {
    if (Group* group = group_of_hca(machine, plan, hca, &groups)) group->hcas.push_back(hca);
  }
  return groups;
}

// Returns whether each GPU of the group is nearer to the group's HCAs among its rails than to the
// rails that it does not use.
bool is_shown_by(const PathTable& paths, const Machine& machine, const RailPlan& plan,
                 const Group& group) {
  for (size_t gpu : group.gpus) {
    const std::vector<int> own = functions_of(machine, plan, gpu);
    PathClass farthest_own = PathClass::kLoc;
    for (int hca : group.hcas) {
      const bool uses =
          std::find(own.begin(), own.end(), first_on_function(machine, hca)) != own.end();
      if (uses) farthest_own = std::max(farthest_own, paths.gpu_hca(gpu, hca));
    }
    for (const Rail& rail : plan.rails) {
      const int function = first_on_function(machine, rail.port.hca);
      if (std::find(own.begin(), own.end(), function) != own.end()) continue;
      if (paths.gpu_hca(gpu, rail.port.hca) <= farthest_own) return false;
    }
  }
  return true;
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

// Moves the devices of some groups of a machine.
class Regrouping {
 public:
  // `moved`: the groups whose HCAs leave their place.
  Regrouping(const Machine& machine, const RailPlan& plan, std::vector<Group> moved)
      : machine_(machine), plan_(plan), moved_(std::move(moved)), grouped_(machine) {
    for (const Group& group : moved_) leaving_.insert(group.hcas.begin(), group.hcas.end());
    for (const Group& group : moved_) move(group);
    drop_empty(&grouped_, machine.switches.size());
    sort(&grouped_);
  }

  Machine take() { return std::move(grouped_); }

 private:
  // What a GPU must not leave: the outermost switch above it, or its NUMA node where that is -1.
  using Tree = std::pair<int, int>;

  Tree tree_of(const Attachment& at) const {
    if (at.parent < 0) return {-1, at.numa};
    int top = at.parent;
    while (machine_.switches[top].at.parent >= 0) top = machine_.switches[top].at.parent;
    return {top, -1};
  }

  // Returns those GPUs of the group that can come near to its HCAs.
  std::vector<size_t> gpus_to_serve(const Group& group) const {
    auto in = [&](const Tree& tree) {
      std::vector<size_t> gpus;
      for (size_t gpu : group.gpus) {
        if (tree_of(machine_.gpus[gpu].at) == tree) gpus.push_back(gpu);
      }
      return gpus;
    };
    std::vector<size_t> most = in(tree_of(machine_.hcas[group.hcas.front()].at));
    for (size_t gpu : group.gpus) {
      std::vector<size_t> gpus = in(tree_of(machine_.gpus[gpu].at));
      if (gpus.size() > most.size()) most = std::move(gpus);
    }
    return most;
  }

  // Returns the nearest switch that is above all these GPUs of one tree, or -1.
  int common_switch(const std::vector<size_t>& gpus) const {
    auto is_above = [&](int ancestor, size_t gpu) {
      int at = machine_.gpus[gpu].at.parent;
      while (at >= 0 && at != ancestor) at = machine_.switches[at].at.parent;
      return at >= 0;
    };
    int common = machine_.gpus[gpus.front()].at.parent;
    while (common >= 0 && !std::all_of(gpus.begin(), gpus.end(),
                                       [&](size_t gpu) { return is_above(common, gpu); })) {
      common = machine_.switches[common].at.parent;
    }
    return common;
  }

  // Returns whether these GPUs are below one switch that has no other GPU and keeps no other rail.
  bool have_a_switch_of_their_own(const std::vector<size_t>& gpus) const {
    const int own = counted_switch(machine_, machine_.gpus[gpus.front()].at);
    if (own < 0) return false;
    for (size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
      const bool is_there = counted_switch(machine_, machine_.gpus[gpu].at) == own;
      const bool is_ours = std::find(gpus.begin(), gpus.end(), gpu) != gpus.end();
      if (is_there != is_ours) return false;
    }
    return std::none_of(plan_.rails.begin(), plan_.rails.end(), [&](const Rail& rail) {
      return leaving_.count(rail.port.hca) == 0 &&
             counted_switch(machine_, machine_.hcas[rail.port.hca].at) == own;
    });
  }

  // Adds a switch for these GPUs and moves them there.
  int add_switch(const std::vector<size_t>& gpus) {
    const Gpu& first = machine_.gpus[gpus.front()];
    Switch made;
    made.bdf = free_address(grouped_);
    const int common = common_switch(gpus);
    made.at = common >= 0 ? machine_.switches[common].at : first.at;
    made.at.parent = common;
    made.at.order = first.at.order;
    for (size_t gpu : gpus) {  // the link must not be narrower than those below it
      const PciLink& link = machine_.gpus[gpu].link;
      if (link.gt_per_s * link.width > made.link.gt_per_s * made.link.width) made.link = link;
    }
    const int index = static_cast<int>(grouped_.switches.size());
    grouped_.switches.push_back(made);
    for (size_t gpu : gpus) grouped_.gpus[gpu].at.parent = index;
    return index;
  }

  void move(const Group& group) {
    if (group.hcas.empty()) return;
    const std::vector<size_t> gpus = gpus_to_serve(group);
    const Attachment& first = machine_.gpus[gpus.front()].at;
    const int parent = have_a_switch_of_their_own(gpus) ? first.parent : add_switch(gpus);
    for (int hca : group.hcas) {
      Attachment& at = grouped_.hcas[hca].at;
      at = Attachment{parent, first.numa, first.host_bridge, at.order};
    }
  }

  const Machine& machine_;
  const RailPlan& plan_;
  const std::vector<Group> moved_;
  std::set<int> leaving_;
  Machine grouped_;
};

}  // namespace

Machine group_under_switches(const Machine& machine, const RailPlan& plan) {
  std::vector<Group> left = groups_of(machine, plan), moved;
  Machine grouped = machine;
  // Moving one group may bring its HCAs as near to another's GPUs as their own.
  for (bool again = true; again;) {
    const PathTable paths(grouped);
    const auto shown = std::stable_partition(left.begin(), left.end(), [&](const Group& group) {
      return is_shown_by(paths, machine, plan, group);
    });
    again = shown != left.end();
    moved.insert(moved.end(), shown, left.end());
    left.erase(shown, left.end());
    if (again) grouped = Regrouping(machine, plan, moved).take();
  }
  return grouped;
}

}  // namespace gdr::topology
