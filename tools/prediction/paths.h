// The paths between GPUs, network devices and CPUs through the graph, as NCCL's breadth-first
// search finds them (ncclTopoSetPaths in its src/graph/paths.cc). They go over PCIe, NVLink and
// C2C; routing.h then changes some of them.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/graph.h"

namespace gdr::topology::nccl {

struct Path {
  PathClass path_class = PathClass::kSys;
  bool exists = false;
  float gb_per_s = 0;  // of the slowest link
  int hops = 0;        // links
  int next = -1;       // the first node on the path; -1: none
  int beyond = -1;     // the first after `next` that is no NVSwitch; -1: none
};

class Paths {
 public:
  Paths(const Graph& graph, const Rules& rules, bool nvb_disabled);

  // Both ends are nodes of the graph; `to` is a GPU, a network device or a CPU.
  const Path& between(int from, int to) const { return searches_[slot(to)][node(from)]; }

  // Makes the path from `from` to `to` that which goes to `over`, and from there to `to`.
  void divert(int from, int over, int to);
  void set_class(int from, int to, PathClass path_class) {
    searches_[slot(to)][node(from)].path_class = path_class;
  }

  // Returns a number by which paths compare: smaller is nearer.
  int rank(const Path& path) const;

  // Returns why NCCL's search fails; "": it does not.
  const std::string& failure() const { return failure_; }

 private:
  static size_t node(int id) { return static_cast<size_t>(id); }
  size_t slot(int id) const { return slots_[static_cast<size_t>(id)]; }

  void search(int base);
  void expand(int base, int from, std::vector<Path>* paths, std::vector<int>* next);
  bool is_barred(int base, int from, const Link& link, int hops) const;
  int hops_to_neighbour(const Node& end) const;
  PathClass class_over(int from, const Link& link, const Path& so_far, const Node& end) const;
  bool is_better(const Path& candidate, const Path& known) const;
  int first_stop(const Path& path) const;
  PathClass joined(PathClass a, PathClass b) const;

  const Graph& graph_;
  const Rules& rules_;
  bool nvb_disabled_;
  std::string failure_;
  std::vector<size_t> slots_;                // of a node, in searches_
  std::vector<std::vector<Path>> searches_;  // [slot of the end][node of the start]
};

}  // namespace gdr::topology::nccl
