#include "topology/nccl/ways.h"

#include <algorithm>

#include "topology/nccl/bandwidth.h"

namespace gdr::topology::nccl {
namespace {

// The greatest rank, of what cannot be reached (PATH_DIS).
constexpr int kUnreachable = 11;

PathClass class_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kLocal:
    case LinkKind::kNet:
      return PathClass::kLoc;
    case LinkKind::kNvLink:
      return PathClass::kNvl;
    case LinkKind::kC2c:
      return PathClass::kC2c;
    case LinkKind::kPci:
      return PathClass::kPix;
    case LinkKind::kSys:
      break;
  }
  return PathClass::kSys;
}

}  // namespace

Ways::Ways(const Graph& graph, const Rules& rules, bool nvb_disabled)
    : graph_(graph), rules_(rules), nvb_disabled_(nvb_disabled), slots_(graph.nodes.size(), 0) {
  searches_.reserve(graph.cpus.size() + graph.gpus.size() + graph.nets.size());
  for (const std::vector<int>* ends : {&graph.cpus, &graph.gpus, &graph.nets}) {
    for (int end : *ends) search(end);
  }
}

int Ways::rank(const Way& way) const { return way.exists ? rules_.rank(way.path) : kUnreachable; }

void Ways::search(int base) {
  slots_[node(base)] = searches_.size();
  std::vector<Way> ways(graph_.nodes.size());
  ways[node(base)] = Way{PathClass::kLoc, true, kLocalBandwidth, 0, -1, -1};
  std::vector<int> level{base}, next;
  while (!level.empty()) {
    next.clear();
    for (int from : level) expand(base, from, &ways, &next);
    level.swap(next);
  }
  searches_.push_back(std::move(ways));
}

// A way passes through a GPU only over NVLink, from one neighbour to another.
bool Ways::is_barred(int base, int from, const Link& link, int hops) const {
  const Node& here = graph_.nodes[node(from)];
  const Node& end = graph_.nodes[node(base)];
  const Node& there = graph_.nodes[node(link.to)];
  const NodeKind device = rules_.splits_gpus ? NodeKind::kDie : NodeKind::kGpu;
  const bool to_rank = link.kind == LinkKind::kLocal && there.kind == NodeKind::kGpu;
  const int own = rules_.splits_gpus && end.kind == NodeKind::kGpu ? end.up : base;
  if (from == own || here.kind != device || (rules_.splits_gpus && to_rank)) return false;
  return nvb_disabled_ || link.kind != LinkKind::kNvLink || there.kind != device ||
         hops > hops_to_neighbour(end);
}

int Ways::hops_to_neighbour(const Node& end) const {
  return rules_.splits_gpus && end.kind == NodeKind::kGpu ? 2 : 1;
}

PathClass Ways::path_over(int from, const Link& link, const Way& so_far, const Node& end) const {
  const NodeKind here = graph_.nodes[node(from)].kind;
  const NodeKind there = graph_.nodes[node(link.to)].kind;
  PathClass path = class_of(link.kind);
  if (here == NodeKind::kSwitch && there == NodeKind::kSwitch) path = PathClass::kPxb;
  const bool at_cpu = here == NodeKind::kCpu || there == NodeKind::kCpu;
  if (link.kind == LinkKind::kPci && at_cpu) path = PathClass::kPhb;
  const NodeKind device = rules_.splits_gpus ? NodeKind::kDie : NodeKind::kGpu;
  const bool far_enough = rules_.class_first ? so_far.hops == hops_to_neighbour(end)
                                             : so_far.hops >= hops_to_neighbour(end);
  if (here == device && so_far.path == PathClass::kNvl && path == PathClass::kNvl && far_enough) {
    path = PathClass::kNvb;
  }
  return std::max(so_far.path, path);
}

bool Ways::is_better(const Way& candidate, const Way& known) const {
  if (!rules_.class_first) {
    const bool shorter = known.gb_per_s == 0 || known.hops >= candidate.hops;
    return shorter && known.gb_per_s < candidate.gb_per_s;
  }
  const int a = rank(candidate), b = rank(known);
  if (a != b) return a < b;
  if (known.gb_per_s != candidate.gb_per_s) return known.gb_per_s < candidate.gb_per_s;
  return known.hops > candidate.hops;
}

void Ways::expand(int base, int from, std::vector<Way>* ways, std::vector<int>* next) {
  const Node& end = graph_.nodes[node(base)];
  for (const Link& link : graph_.nodes[node(from)].links) {
    const Way so_far = (*ways)[node(from)];
    if (is_barred(base, from, link, so_far.hops)) continue;
    Way& known = (*ways)[node(link.to)];
    Way candidate{path_over(from, link, so_far, end),
                  true,
                  std::min(so_far.gb_per_s, link.gb_per_s),
                  so_far.hops + 1,
                  from,
                  first_stop(so_far)};
    if (!is_better(candidate, known)) continue;
    // The way leads back over the link in the other direction. NCCL keeps the link that it took
    // before where there is none, and fails where there was none before.
    if (graph_.find(link.to, from, link.kind) == nullptr) {
      if (known.next < 0) {
        if (failure_.empty()) failure_ = "Failed to find reverse path";
        continue;
      }
      candidate.next = known.next;
    }
    known = candidate;
    if (std::find(next->begin(), next->end(), link.to) == next->end()) next->push_back(link.to);
  }
}

int Ways::first_stop(const Way& way) const {
  if (way.next < 0 || graph_.nodes[node(way.next)].kind != NodeKind::kNvSwitch) return way.next;
  return way.beyond;
}

PathClass Ways::joined(PathClass a, PathClass b) const {
  const PathClass far = rules_.rank(a) < rules_.rank(b) ? b : a;
  const PathClass near = far == a ? b : a;
  const bool over_c2c = far == PathClass::kPhb && near == PathClass::kC2c;
  return rules_.joins_c2c_and_phb && over_c2c ? PathClass::kP2c : far;
}

void Ways::divert(int from, int over, int to) {
  const Way& head = between(from, over);
  const Way& tail = between(over, to);
  const bool over_gpu = graph_.nodes[node(over)].kind == NodeKind::kGpu;
  Way way{over_gpu ? PathClass::kPxn : joined(head.path, tail.path),
          head.exists && tail.exists,
          std::min(head.gb_per_s, tail.gb_per_s),
          head.hops + tail.hops,
          head.next < 0 ? tail.next : head.next,
          head.beyond < 0 ? first_stop(tail) : head.beyond};
  searches_[slot(to)][node(from)] = way;
}

}  // namespace gdr::topology::nccl
