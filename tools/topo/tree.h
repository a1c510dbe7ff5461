// The machine as a tree of boxes, for pictures.
#pragma once

#include <string>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

struct TreeNode {
  enum class Kind { kMachine, kPackage, kNumaNode, kHostBridge, kSwitch };
  Kind kind = Kind::kMachine;
  int index = -1;  // in the Machine's list of this kind; -1 for the machine
  std::vector<TreeNode> children;
  std::vector<int> gpus;  // directly in this node
  std::vector<int> hcas;
};

// Every GPU and HCA is in it once. What is not known (packages, host bridges) is left out.
TreeNode machine_tree(const Machine& machine);

// What to write on a box: "package 0", "NUMA node 1: CPUs 0-47", "switch 0000:17:00.0"...
std::string node_label(const Machine& machine, const TreeNode& node);

}  // namespace gdr::topology
