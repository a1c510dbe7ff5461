#include <algorithm>

#include "tools/prediction/graph.h"
#include "topology/path_class.h"

namespace gdr::topology::nccl {
namespace {

class Flattener {
 public:
  Flattener(const Machine& machine, Graph* graph)
      : machine_(machine), graph_(graph), done_(graph->nodes.size(), false) {}

  bool flatten_all() {
    for (size_t at = 0; at < graph_->nodes.size(); ++at) {
      const int node = static_cast<int>(at);
      const int generation = generation_of(node, BroadcomLevel::kOuter);
      if (generation == 0) continue;
      if (!flatten(node, generation)) return false;
      at = static_cast<size_t>(-1);  // others may have become its neighbours
    }
    return true;
  }

 private:
  std::vector<Link>& links(int node) { return graph_->nodes[static_cast<size_t>(node)].links; }

  int generation_of(int node, BroadcomLevel level) const {
    const Node& one = graph_->nodes[static_cast<size_t>(node)];
    if (one.kind != NodeKind::kSwitch || done_[static_cast<size_t>(node)]) return 0;
    return broadcom_generation(machine_.switches[static_cast<size_t>(one.index)].ids, level);
  }

  bool flatten(int node, int generation) {
    std::vector<int> parts;
    auto is_part = [&](const Link& link) {
      if (generation_of(link.to, BroadcomLevel::kInner) != generation) return false;
      parts.push_back(link.to);
      return true;
    };
    std::vector<Link>& own = links(node);
    std::vector<Link> kept;
    for (const Link& link : own) {
      if (!is_part(link)) kept.push_back(link);
    }
    own = std::move(kept);
    done_[static_cast<size_t>(node)] = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (std::find(parts.begin(), parts.begin() + static_cast<long>(i), parts[i]) !=
          parts.begin() + static_cast<long>(i)) {
        return false;
      }
      take_over(node, parts[i]);
    }
    return true;
  }

  // Gives the links of `part` to `node`, and removes it.
  void take_over(int node, int part) {
    for (const Link& link : links(part)) {
      if (link.to == node) continue;
      links(node).push_back(link);
      std::vector<Link>& back = links(link.to);
      auto found = std::find_if(back.begin(), back.end(),
                                [part](const Link& other) { return other.to == part; });
      if (found != back.end()) found->to = node;
    }
    links(part).clear();
    done_[static_cast<size_t>(part)] = true;
    for (Node& other : graph_->nodes) {
      std::erase_if(other.links, [part](const Link& link) { return link.to == part; });
    }
  }

  const Machine& machine_;
  Graph* graph_;
  std::vector<bool> done_;  // flattened, or merged into another
};

bool sort_below(Graph* graph, int node, int above, size_t depth) {
  if (depth > graph->nodes.size()) return false;
  std::vector<Link>& links = graph->nodes[static_cast<size_t>(node)].links;
  auto up = std::find_if(links.begin(), links.end(),
                         [above](const Link& link) { return link.to == above; });
  if (above >= 0 && up == links.end()) return false;
  if (up != links.end()) std::rotate(up, up + 1, links.end());
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].kind != LinkKind::kPci || links[i].to == above) continue;
    if (!sort_below(graph, links[i].to, node, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool flatten_broadcom(const Machine& machine, Graph* graph) {
  return Flattener(machine, graph).flatten_all();
}

bool put_uplinks_last(Graph* graph) {
  for (int cpu : graph->cpus) {
    if (!sort_below(graph, cpu, -1, 0)) return false;
  }
  return true;
}

}  // namespace gdr::topology::nccl
