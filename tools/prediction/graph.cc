#include "tools/prediction/graph.h"

#include <algorithm>

namespace gdr::topology::nccl {

int Graph::add(NodeKind kind, int index) {
  const int id = static_cast<int>(nodes.size());
  nodes.push_back(Node{kind, index, -1, {}});
  if (kind == NodeKind::kGpu) gpus.push_back(id);
  if (kind == NodeKind::kNet) nets.push_back(id);
  if (kind == NodeKind::kCpu) cpus.push_back(id);
  if (kind == NodeKind::kDev) ++devs;
  return id;
}

void Graph::connect(int from, int to, LinkKind kind, float gb_per_s) {
  std::vector<Link>& links = nodes[static_cast<size_t>(from)].links;
  auto at = std::find_if(links.begin(), links.end(),
                         [&](const Link& link) { return link.to == to && link.kind == kind; });
  if (at == links.end()) at = links.insert(at, Link{kind, to, 0});
  at->gb_per_s += gb_per_s;
  for (; at != links.begin() && (at - 1)->gb_per_s < at->gb_per_s; --at) std::swap(*at, *(at - 1));
}

void Graph::connect_both(int a, int b, LinkKind kind, float gb_per_s) {
  connect(a, b, kind, gb_per_s);
  connect(b, a, kind, gb_per_s);
}

const Link* Graph::find(int from, int to, LinkKind kind) const {
  for (const Link& link : nodes[static_cast<size_t>(from)].links) {
    if (link.to == to && link.kind == kind) return &link;
  }
  return nullptr;
}

}  // namespace gdr::topology::nccl
