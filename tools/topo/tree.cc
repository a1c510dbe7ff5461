#include "tools/topo/tree.h"

#include <fmt/format.h>

#include <functional>
#include <set>

#include "tools/topo/labels.h"

namespace gdr::topology {
namespace {

using Kind = TreeNode::Kind;
using Filter = std::function<bool(const Attachment&)>;

TreeNode switch_node(const Machine& machine, int index);

// Puts what the filter takes directly into the node.
void fill(const Machine& machine, const Filter& is_here, TreeNode* node) {
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    if (!is_here(machine.switches[i].at)) continue;
    node->children.push_back(switch_node(machine, static_cast<int>(i)));
  }
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (is_here(machine.gpus[i].at)) node->gpus.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    if (is_here(machine.hcas[i].at)) node->hcas.push_back(static_cast<int>(i));
  }
}

TreeNode switch_node(const Machine& machine, int index) {
  TreeNode node{Kind::kSwitch, index, {}, {}, {}};
  fill(
      machine, [index](const Attachment& at) { return at.parent == index; }, &node);
  return node;
}

// Host bridges that lead to something on this NUMA node.
std::set<int> host_bridges_of(const Machine& machine, int numa) {
  std::set<int> bridges;
  auto look = [&](const Attachment& at) {
    if (at.parent < 0 && at.numa == numa && at.host_bridge >= 0) bridges.insert(at.host_bridge);
  };
  for (const Switch& one : machine.switches) look(one.at);
  for (const Gpu& gpu : machine.gpus) look(gpu.at);
  for (const Hca& hca : machine.hcas) look(hca.at);
  return bridges;
}

// Everything on a NUMA node (-1: on none).
void fill_numa(const Machine& machine, int numa, TreeNode* node) {
  auto filter = [numa](int bridge) {
    return [=](const Attachment& at) {
      return at.parent < 0 && at.numa == numa && at.host_bridge == bridge;
    };
  };
  for (int bridge : host_bridges_of(machine, numa)) {
    TreeNode child{Kind::kHostBridge, bridge, {}, {}, {}};
    fill(machine, filter(bridge), &child);
    node->children.push_back(std::move(child));
  }
  fill(machine, filter(-1), node);
}

void add_numa_nodes(const Machine& machine, int package, TreeNode* node) {
  for (size_t i = 0; i < machine.numa_nodes.size(); ++i) {
    if (machine.numa_nodes[i].package != package) continue;
    TreeNode child{Kind::kNumaNode, static_cast<int>(i), {}, {}, {}};
    fill_numa(machine, static_cast<int>(i), &child);
    node->children.push_back(std::move(child));
  }
}

}  // namespace

TreeNode machine_tree(const Machine& machine) {
  TreeNode root;
  for (size_t i = 0; i < machine.packages.size(); ++i) {
    TreeNode package{Kind::kPackage, static_cast<int>(i), {}, {}, {}};
    add_numa_nodes(machine, static_cast<int>(i), &package);
    root.children.push_back(std::move(package));
  }
  add_numa_nodes(machine, -1, &root);
  fill_numa(machine, -1, &root);
  return root;
}

std::string node_label(const Machine& machine, const TreeNode& node) {
  switch (node.kind) {
    case Kind::kMachine:
      return machine.source;
    case Kind::kPackage:
      return fmt::format("package {}", machine.packages[node.index].id);
    case Kind::kNumaNode: {
      const NumaNode& numa = machine.numa_nodes[node.index];
      if (numa.id < 0) return "NUMA node not known";
      std::string cpus = numa.cpus.empty() ? "" : ": CPUs " + cpu_list(numa.cpus);
      return fmt::format("NUMA node {}{}", numa.id, cpus);
    }
    case Kind::kHostBridge:
      return "host bridge " + host_bridge_text(machine, node.index);
    case Kind::kSwitch:
      return "switch " + machine.switches[node.index].bdf.to_string();
  }
  return "";
}

}  // namespace gdr::topology
