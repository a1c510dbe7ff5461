// The graph that NCCL builds of a machine: nodes in numbered sets, one for each kind, and links
// from node to node in descending order of bandwidth. The order of nodes and of links decides among
// equal routes, and NCCL's handling of them leaves traces (see Node::slots), so both are kept as
// NCCL keeps them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "topology/path_class.h"

namespace gdr::topology::oracle {

// Why NCCL fails, or does not end, on a machine.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind { kGpu, kPci, kNvs, kCpu, kNic, kNet, kDev, kCxb };
inline constexpr size_t kKinds = 8;

// A position in the set of a kind. NCCL refers to nodes by address, so that a reference to a
// position past a removed node means the node that has moved there.
struct Ref {
  Kind kind = Kind::kGpu;
  size_t index = 0;
  bool operator==(const Ref&) const = default;
};

// Kinds of links and classes of routes share their numbers, as in NCCL: those of PathClass, and
// these beyond.
constexpr int number(PathClass path) { return static_cast<int>(path); }
inline constexpr int kLinkNet = 10;
inline constexpr int kUnreached = 11;

struct Link {
  int type = 0;
  float gb_per_s = 0;
  Ref to;
};

// A route to a node. NCCL overwrites routes in place, and `list` may be longer than `hops`.
struct Path {
  int type = 0;
  float gb_per_s = 0;
  size_t hops = 0;
  std::vector<Ref> list;  // the nodes along the way, the last one is the target
};

struct CpuFacts {
  std::string arch, vendor;
  int family = 0, model = 0;
};

struct Node {
  int64_t id = 0;
  // Links are the first `links` elements. Elements past them are what removed links left behind;
  // NCCL takes them into account when it adds or sorts links.
  std::vector<Link> slots;
  size_t links = 0;
  std::array<std::vector<Path>, kKinds> paths;  // to all nodes of a kind; empty: none computed

  int rank = -1;          // GPU
  int dev = -1;           // GPU, device, NET
  int capability = 0;     // GPU, device
  int partition = -1;     // GPU
  bool gpudirect = true;  // GPU, NET
  size_t parent = 0;      // GPU: its device
  uint64_t pci_ids = 0;   // switch
  CpuFacts cpu;
};

class NodeGraph {
 public:
  size_t count(Kind kind) const { return sets_[static_cast<size_t>(kind)].count; }
  Node& at(Ref ref) { return sets_[static_cast<size_t>(ref.kind)].nodes.at(ref.index); }
  Node& at(Kind kind, size_t index) { return at(Ref{kind, index}); }

  Ref add(Kind kind, int64_t id);
  // Returns the node of that id, or the end of the set.
  Ref find(Kind kind, int64_t id) const;
  bool valid(Ref ref) const { return ref.index < count(ref.kind); }

  // Adds a link in one direction; one of the same type between the same nodes gets faster.
  void link(Ref from, Ref to, int type, float gb_per_s);
  void link_both(Ref a, Ref b, int type, float gb_per_s);
  // Removes a node and all links to it.
  void remove(Ref ref);
  // Removes a link of a node, by number.
  void remove_link(Node* node, size_t link);

  // Makes one switch of Broadcom switches that present themselves as two levels.
  void merge_broadcom(bool skips_first_switch);
  // Puts the link up the tree behind the links down, everywhere below the CPUs.
  void sort_links();

 private:
  struct Set {
    std::vector<Node> nodes;  // NCCL leaves a copy of the last node behind when it removes one
    size_t count = 0;
  };
  void merge_into(size_t position, int generation);
  void adopt(size_t position, Ref child);
  void sort_links_below(Ref node, const Ref* up, int depth);

  std::array<Set, kKinds> sets_;
};

}  // namespace gdr::topology::oracle
