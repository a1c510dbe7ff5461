#include "tests/unit/tools/prediction/oracle/routes.h"

#include <algorithm>

#include "topology/path_class.h"

namespace gdr::topology::oracle {
namespace {

class Search {
 public:
  Search(NodeGraph* graph, Ref base, const ReleaseRules& rules, bool nvb_disable)
      : graph_(*graph), base_(base), rules_(rules), nvb_disable_(nvb_disable) {
    // A GPU's own device is the first hop where devices are nodes.
    relay_ = rules.device_nodes ? Kind::kDev : Kind::kGpu;
    longest_ = base.kind == Kind::kGpu && rules.device_nodes ? 2 : 1;
    home_ = base.kind == Kind::kGpu && rules.device_nodes ? Ref{Kind::kDev, graph->at(base).parent}
                                                          : base;
  }

  void run() {
    make_room(base_, rules_.own_unreached_is_far);
    Path& own = path_of(base_);
    own.hops = 0;
    own.gb_per_s = 5000;
    own.type = number(PathClass::kLoc);
    std::vector<Ref> reached{base_};
    while (!reached.empty()) {
      std::vector<Ref> next;
      for (const Ref node : reached) {
        for (size_t link = 0; link < graph_.at(node).links; ++link) {
          const Link step = graph_.at(node).slots[link];
          if (take(node, step) && std::find(next.begin(), next.end(), step.to) == next.end()) {
            next.push_back(step.to);
          }
        }
      }
      reached = next;
    }
  }

 private:
  Path& path_of(Ref node) { return route(&graph_, node, base_); }

  void make_room(Ref node, bool far) {
    std::vector<Path>& paths = graph_.at(node).paths[static_cast<size_t>(base_.kind)];
    if (!paths.empty()) return;
    paths.resize(graph_.count(base_.kind));
    for (Path& path : paths) path.type = far ? kUnreached : number(PathClass::kLoc);
  }

  // Whether data may go on over a link of a GPU: only to another GPU, over NVLink, and once.
  bool may_relay(Ref node, const Link& step) {
    if (node == home_ || node.kind != relay_) return true;
    if (step.type == number(PathClass::kLoc) && step.to.kind == Kind::kGpu && rules_.device_nodes) {
      return true;
    }
    return !nvb_disable_ && step.type == number(PathClass::kNvl) && step.to.kind == relay_ &&
           path_of(node).hops <= longest_;
  }

  int class_after(Ref node, const Link& step) {
    const Path& path = path_of(node);
    const bool cpu = node.kind == Kind::kCpu || step.to.kind == Kind::kCpu;
    int type = step.type == kLinkNet ? number(PathClass::kLoc) : step.type;
    if (node.kind == Kind::kPci && step.to.kind == Kind::kPci) type = number(PathClass::kPxb);
    if (step.type == number(PathClass::kPix) && cpu) type = number(PathClass::kPhb);
    if (node.kind == relay_ && path.type == number(PathClass::kNvl) &&
        type == number(PathClass::kNvl) && path.hops >= longest_) {
      type = number(PathClass::kNvb);
    }
    return std::max(path.type, type);
  }

  bool is_better(const Path& known, const Path& path, int type, float bandwidth) const {
    if (!rules_.class_first) {
      return (known.gb_per_s == 0 || known.hops > path.hops) && known.gb_per_s < bandwidth;
    }
    if (type != known.type) return type < known.type;
    if (known.gb_per_s != bandwidth) return known.gb_per_s < bandwidth;
    return known.hops > path.hops + 1;
  }

  // Extends the route of `node` to the end of the link where that is better than the known one.
  bool take(Ref node, const Link& step) {
    make_room(step.to, rules_.unreached_is_far);
    if (!may_relay(node, step)) return false;
    const Path path = path_of(node);
    const int type = class_after(node, step);
    const float bandwidth = std::min(path.gb_per_s, step.gb_per_s);
    Path& known = path_of(step.to);
    if (!is_better(known, path, type, bandwidth)) return false;
    const Node& end = graph_.at(step.to);
    bool found = false;
    for (size_t link = 0; link < end.links && !found; ++link) {
      found = end.slots[link].to == node && end.slots[link].type == step.type;
    }
    // Without a link back NCCL keeps the first step of the route that it knew before.
    if (!found && known.list.empty()) throw Failure("Failed to find reverse path");
    if (known.list.size() < path.hops + 1) known.list.resize(path.hops + 1);
    if (found) known.list[0] = node;
    std::copy_n(path.list.begin(), path.hops, known.list.begin() + 1);
    known.hops = path.hops + 1;
    known.gb_per_s = bandwidth;
    known.type = type;
    return true;
  }

  NodeGraph& graph_;
  Ref base_;
  ReleaseRules rules_;
  bool nvb_disable_;
  Kind relay_;
  size_t longest_;
  Ref home_;
};

}  // namespace

void find_routes_to(NodeGraph* graph, Ref base, const ReleaseRules& rules, bool nvb_disable) {
  Search(graph, base, rules, nvb_disable).run();
}

int rank_of(int type, const ReleaseRules& rules) {
  constexpr int kPair = number(PathClass::kP2c) + number(PathClass::kPxn);
  const bool of_the_pair = type == number(PathClass::kP2c) || type == number(PathClass::kPxn);
  return rules.pxn_before_p2c && of_the_pair ? kPair - type : type;
}

int joined_class(int a, int b, const ReleaseRules& rules) {
  const int far = rank_of(a, rules) < rank_of(b, rules) ? b : a;
  const bool c2c = std::min(a, b) == number(PathClass::kC2c) && far == number(PathClass::kPhb);
  return c2c && rules.joins_to_p2c ? number(PathClass::kP2c) : far;
}

void divert(NodeGraph* graph, Ref from, Ref over, Ref to, const ReleaseRules& rules) {
  const Path first = route(graph, from, over);
  const Path second = route(graph, over, to);
  Path& path = route(graph, from, to);
  path.hops = first.hops + second.hops;
  if (path.list.size() < path.hops) path.list.resize(path.hops);
  std::copy_n(first.list.begin(), first.hops, path.list.begin());
  std::copy_n(second.list.begin(), second.hops, path.list.begin() + static_cast<long>(first.hops));
  path.type = over.kind == Kind::kGpu ? number(PathClass::kPxn)
                                      : joined_class(first.type, second.type, rules);
  path.gb_per_s = std::min(first.gb_per_s, second.gb_per_s);
}

}  // namespace gdr::topology::oracle
