// The machine as NCCL sees it: a graph of devices, with the bandwidth of each link (struct
// ncclTopoSystem in NCCL's src/graph/topo.h). NCCL's struct ncclTopoGraph is something else: the
// rings and trees that it finds in this one.
//
// Ties between routes and between devices are broken by the order of nodes and of links, so both
// are those that NCCL arrives at. Nodes follow the order of NCCL's XML tree; see xml_tree.h.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/rules.h"
#include "topology/ports.h"

namespace gdr::topology::nccl {

enum class NodeKind {
  kGpu,        // a rank; `index` is the one in Machine::gpus
  kDev,        // the GPU that a rank runs on, or its partition; in releases that have DEV nodes
  kSwitch,     // a PCIe switch; `index` is the one in Machine::switches
  kNvSwitch,   // all NVSwitches
  kCpu,        // a NUMA node; `index` is the one in Machine::numa_nodes
  kNic,        // a PCIe function with network devices
  kNet,        // a network device; `index` is its number
  kC2cBridge,  // CXB in NCCL: shares one NVLink-C2C between the partitions of a GPU
};

enum class LinkKind { kLocal, kNvLink, kC2c, kPci, kSys, kNet };

struct Link {
  LinkKind kind = LinkKind::kPci;
  int to = -1;  // index in Graph::nodes
  float gb_per_s =
      0;  // 10^9 bytes per second; NCCL computes with float, and so do comparisons here
};

struct Node {
  NodeKind kind = NodeKind::kCpu;
  int index = -1;
  int dev = -1;  // kGpu: its kDev, where the release has these
  std::vector<Link> links;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<int> gpus, nets, cpus;  // indexes in `nodes`, in NCCL's order
  int nv_switch = -1;
  int devs = 0;  // nodes of kDev

  int add(NodeKind kind, int index);
  // Adds a link in one direction, or adds to the bandwidth of the link of this kind that is there.
  // Links are kept in descending order of bandwidth.
  void connect(int from, int to, LinkKind kind, float gb_per_s);
  void connect_both(int a, int b, LinkKind kind, float gb_per_s);
  // Returns the link of this kind; nullptr: there is none.
  const Link* find(int from, int to, LinkKind kind) const;
};

// Links inside a device, and those that NCCL takes to be no limit.
inline constexpr float kLocalBandwidth = 5000.0F;
// Between the partitions of one GPU.
inline constexpr float kPartitionBandwidth = 2618.0F;

// The bandwidths that NCCL assumes of links, in 10^9 bytes per second (src/graph/topo.h and topo.cc
// of NCCL). Where the machine's source does not state a speed, it is assumed, and a sentence says
// so; a machine from a NCCL topology file or from sysfs gets what NCCL takes for a missing value.
class Bandwidths {
 public:
  Bandwidths(const Machine& machine, const std::vector<PortRef>& devices, const Rules& rules);

  float pcie(const PciLink& link);
  float nvlink(const Gpu& gpu, const NvLink& link);
  float c2c(const Gpu& gpu);
  float device(PortRef port);
  float between_cpus();

  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  // Whether NCCL has the same values, and its defaults in place of those that are missing.
  bool nccl_has_this_source() const;
  float device_where_unknown();
  void assume(const std::string& sentence);

  const Machine& machine_;
  const std::vector<PortRef>& devices_;
  const Rules& rules_;
  std::vector<std::string> assumptions_;
};

// What building a graph came across.
struct GraphNotes {
  std::string failure;                   // why NCCL fails on the machine; "": it does not
  std::vector<std::string> assumptions;  // sentences; see Prediction::assumptions()
};

// Returns the graph of a job with one rank for each GPU. devices[i] is the network device i.
Graph build_graph(const Machine& machine, const std::vector<PortRef>& devices, const Rules& rules,
                  GraphNotes* notes);

// Two steps of build_graph() that NCCL applies to its graph of a machine:
// ncclTopoFlattenBcmSwitches and ncclTopoSort in its src/graph/topo.cc (flatten.cc).

// Makes one switch of a Broadcom switch that shows itself as several. Neighbours are merged into
// the one that NCCL comes across first, whether they are below it, above it or linked to it by
// <pcilink>. Returns false where NCCL fails to.
bool flatten_broadcom(const Machine& machine, Graph* graph);

// Moves the link to the device above to the end of the links of each PCIe device. Returns false
// where NCCL does not end or crashes: PCIe links form a ring, or a device has no link upward.
bool put_uplinks_last(Graph* graph);

struct Path {
  PathClass path_class = PathClass::kSys;
  bool exists = false;
  float gb_per_s = 0;  // of the slowest link
  int hops = 0;        // links
  int next = -1;       // the first node on the path; -1: none
  int beyond = -1;     // the first after `next` that is no NVSwitch; -1: none
};

// The paths between GPUs, network devices and CPUs through the graph, as NCCL's breadth-first
// search finds them (ncclTopoSetPaths in its src/graph/paths.cc). They go over PCIe, NVLink and
// C2C; routing.h then changes some of them.
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
