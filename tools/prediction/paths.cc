#include <algorithm>

#include "tools/prediction/graph.h"

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

Paths::Paths(const Graph& graph, const Rules& rules, bool nvb_disabled)
    : graph_(graph), rules_(rules), nvb_disabled_(nvb_disabled), slots_(graph.nodes.size(), 0) {
  searches_.reserve(graph.cpus.size() + graph.gpus.size() + graph.nets.size());
  for (const std::vector<int>* ends : {&graph.cpus, &graph.gpus, &graph.nets}) {
    for (int end : *ends) search(end);
  }
}

int Paths::rank(const Path& path) const {
  return path.exists ? rules_.rank(path.path_class) : kUnreachable;
}

void Paths::search(int base) {
  slots_[node(base)] = searches_.size();
  std::vector<Path> paths(graph_.nodes.size());
  paths[node(base)] = Path{PathClass::kLoc, true, kLocalBandwidth, 0, -1, -1};
  std::vector<int> level{base}, next;
  while (!level.empty()) {
    next.clear();
    for (int from : level) expand(base, from, &paths, &next);
    level.swap(next);
  }
  searches_.push_back(std::move(paths));
}

// A path passes through a GPU only over NVLink, from one neighbour to another.
bool Paths::is_barred(int base, int from, const Link& link, int hops) const {
  const Node& here = graph_.nodes[node(from)];
  const Node& end = graph_.nodes[node(base)];
  const Node& there = graph_.nodes[node(link.to)];
  const NodeKind device = rules_.has_dev_nodes ? NodeKind::kDev : NodeKind::kGpu;
  const bool to_rank = link.kind == LinkKind::kLocal && there.kind == NodeKind::kGpu;
  const int own = rules_.has_dev_nodes && end.kind == NodeKind::kGpu ? end.dev : base;
  if (from == own || here.kind != device || (rules_.has_dev_nodes && to_rank)) return false;
  return nvb_disabled_ || link.kind != LinkKind::kNvLink || there.kind != device ||
         hops > hops_to_neighbour(end);
}

int Paths::hops_to_neighbour(const Node& end) const {
  return rules_.has_dev_nodes && end.kind == NodeKind::kGpu ? 2 : 1;
}

PathClass Paths::class_over(int from, const Link& link, const Path& so_far, const Node& end) const {
  const NodeKind here = graph_.nodes[node(from)].kind;
  const NodeKind there = graph_.nodes[node(link.to)].kind;
  PathClass path_class = class_of(link.kind);
  if (here == NodeKind::kSwitch && there == NodeKind::kSwitch) path_class = PathClass::kPxb;
  const bool at_cpu = here == NodeKind::kCpu || there == NodeKind::kCpu;
  if (link.kind == LinkKind::kPci && at_cpu) path_class = PathClass::kPhb;
  const NodeKind device = rules_.has_dev_nodes ? NodeKind::kDev : NodeKind::kGpu;
  const bool far_enough = rules_.class_first ? so_far.hops == hops_to_neighbour(end)
                                             : so_far.hops >= hops_to_neighbour(end);
  if (here == device && so_far.path_class == PathClass::kNvl && path_class == PathClass::kNvl &&
      far_enough) {
    path_class = PathClass::kNvb;
  }
  return std::max(so_far.path_class, path_class);
}

bool Paths::is_better(const Path& candidate, const Path& known) const {
  if (!rules_.class_first) {
    const bool shorter = known.gb_per_s == 0 || known.hops >= candidate.hops;
    return shorter && known.gb_per_s < candidate.gb_per_s;
  }
  const int a = rank(candidate), b = rank(known);
  if (a != b) return a < b;
  if (known.gb_per_s != candidate.gb_per_s) return known.gb_per_s < candidate.gb_per_s;
  return known.hops > candidate.hops;
}

void Paths::expand(int base, int from, std::vector<Path>* paths, std::vector<int>* next) {
  const Node& end = graph_.nodes[node(base)];
  for (const Link& link : graph_.nodes[node(from)].links) {
    const Path so_far = (*paths)[node(from)];
    if (is_barred(base, from, link, so_far.hops)) continue;
    Path& known = (*paths)[node(link.to)];
    Path candidate{class_over(from, link, so_far, end),
                   true,
                   std::min(so_far.gb_per_s, link.gb_per_s),
                   so_far.hops + 1,
                   from,
                   first_stop(so_far)};
    if (!is_better(candidate, known)) continue;
    // The path leads back over the link in the other direction. NCCL keeps the link that it took
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

int Paths::first_stop(const Path& path) const {
  if (path.next < 0 || graph_.nodes[node(path.next)].kind != NodeKind::kNvSwitch) return path.next;
  return path.beyond;
}

PathClass Paths::joined(PathClass a, PathClass b) const {
  const PathClass far = rules_.rank(a) < rules_.rank(b) ? b : a;
  const PathClass near = far == a ? b : a;
  const bool over_c2c = far == PathClass::kPhb && near == PathClass::kC2c;
  return rules_.joins_c2c_and_phb && over_c2c ? PathClass::kP2c : far;
}

void Paths::divert(int from, int over, int to) {
  const Path& head = between(from, over);
  const Path& tail = between(over, to);
  const bool over_gpu = graph_.nodes[node(over)].kind == NodeKind::kGpu;
  Path path{over_gpu ? PathClass::kPxn : joined(head.path_class, tail.path_class),
            head.exists && tail.exists,
            std::min(head.gb_per_s, tail.gb_per_s),
            head.hops + tail.hops,
            head.next < 0 ? tail.next : head.next,
            head.beyond < 0 ? first_stop(tail) : head.beyond};
  searches_[slot(to)][node(from)] = path;
}

}  // namespace gdr::topology::nccl
