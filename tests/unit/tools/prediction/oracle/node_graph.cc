#include "tests/unit/tools/prediction/oracle/node_graph.h"

#include <algorithm>

#include "topology/path_class.h"

namespace gdr::topology::oracle {
namespace {

constexpr int kPciLink = static_cast<int>(PathClass::kPix);
constexpr int kDeepest = 64;  // levels of a PCI tree; more are a circle

// Returns the generation of the Broadcom part with these vendor, device and subsystem numbers, 4 or
// 5, on the upper (0) or the lower (1) level of the two; 0: another part.
int broadcom_generation(uint64_t ids, uint64_t level) {
  const uint64_t part = ids >> 12;
  if (part == 0x1000c0101000aU) return 4;
  return part == (0x1000c03010000U | level) ? 5 : 0;
}

}  // namespace

Ref NodeGraph::add(Kind kind, int64_t id) {
  Set& set = sets_[static_cast<size_t>(kind)];
  set.nodes.resize(set.count);
  set.nodes.emplace_back().id = id;
  return Ref{kind, set.count++};
}

Ref NodeGraph::find(Kind kind, int64_t id) const {
  const Set& set = sets_[static_cast<size_t>(kind)];
  size_t index = 0;
  while (index < set.count && set.nodes[index].id != id) ++index;
  return Ref{kind, index};
}

void NodeGraph::link(Ref from, Ref to, int type, float gb_per_s) {
  Node& node = at(from);
  size_t slot = 0;
  while (slot < node.slots.size() && !(node.slots[slot].to == to && node.slots[slot].type == type))
    ++slot;
  if (slot == node.slots.size()) {
    node.slots.push_back(Link{type, 0, to});
    ++node.links;
  }
  node.slots[slot].gb_per_s += gb_per_s;
  for (; slot > 0 && node.slots[slot - 1].gb_per_s < node.slots[slot].gb_per_s; --slot) {
    std::swap(node.slots[slot - 1], node.slots[slot]);
  }
}

void NodeGraph::link_both(Ref a, Ref b, int type, float gb_per_s) {
  link(a, b, type, gb_per_s);
  link(b, a, type, gb_per_s);
}

void NodeGraph::remove_link(Node* node, size_t link) {
  for (size_t slot = link; slot + 1 < node->links; ++slot) {
    node->slots[slot] = node->slots[slot + 1];
  }
  --node->links;
}

void NodeGraph::remove(Ref ref) {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (size_t index = 0; index < sets_[kind].count; ++index) {
      const Ref self{static_cast<Kind>(kind), index};
      if (self == ref) continue;
      Node& node = at(self);
      for (size_t link = 0; link < node.links; ++link) {
        while (link < node.links && node.slots[link].to == ref) remove_link(&node, link);
        if (link >= node.links) break;
        Ref& to = node.slots[link].to;
        if (to.kind == ref.kind && to.index >= ref.index) --to.index;
      }
    }
  }
  Set& set = sets_[static_cast<size_t>(ref.kind)];
  for (size_t index = ref.index; index + 1 < set.count; ++index) {
    set.nodes[index] = set.nodes[index + 1];
  }
  --set.count;
}

void NodeGraph::merge_broadcom(bool skips_first_switch) {
  for (size_t position = 0; position < count(Kind::kPci); ++position) {
    const int generation = broadcom_generation(at(Kind::kPci, position).pci_ids, 0);
    if (generation == 0) continue;
    merge_into(position, generation);
    at(Kind::kPci, position).pci_ids |= 0xffff;
    position = skips_first_switch ? 0 : static_cast<size_t>(-1);
  }
}

// Merges all linked switches of the generation into the one at the position: its children, and its
// parent as well where that has the numbers of a lower level.
void NodeGraph::merge_into(size_t position, int generation) {
  std::vector<int64_t> merged;
  Node& node = at(Kind::kPci, position);
  for (size_t link = 0; link < node.links;) {
    const Ref other = node.slots[link].to;
    if (other.kind == Kind::kPci && broadcom_generation(at(other).pci_ids, 1) == generation) {
      merged.push_back(at(other).id);
      remove_link(&node, link);
    } else {
      ++link;
    }
  }
  for (const int64_t id : merged) {
    const Ref child = find(Kind::kPci, id);
    if (!valid(child)) throw Failure("a Broadcom switch is merged twice");
    adopt(position, child);
    remove(child);
  }
}

// Gives the links of `child` to the switch at the position.
void NodeGraph::adopt(size_t position, Ref child) {
  const Ref self{Kind::kPci, position};
  const std::vector<Link> links(at(child).slots.begin(),
                                at(child).slots.begin() + static_cast<long>(at(child).links));
  for (const Link& link : links) {
    if (link.to == self) continue;
    Node& node = at(self);
    if (node.links < node.slots.size()) {
      node.slots[node.links] = link;
    } else {
      node.slots.push_back(link);
    }
    ++node.links;
    Node& neighbour = at(link.to);
    for (size_t back = 0; back < neighbour.links; ++back) {
      if (neighbour.slots[back].to != child) continue;
      neighbour.slots[back].to = self;
      break;
    }
  }
}

void NodeGraph::sort_links() {
  for (size_t cpu = 0; cpu < count(Kind::kCpu); ++cpu) {
    sort_links_below(Ref{Kind::kCpu, cpu}, nullptr, 0);
  }
}

void NodeGraph::sort_links_below(Ref ref, const Ref* up, int depth) {
  if (depth > kDeepest) throw Failure("the PCI tree has a circle");
  Node& node = at(ref);
  if (up != nullptr) {
    size_t slot = 0;
    while (slot < node.slots.size() && node.slots[slot].to != *up) ++slot;
    if (slot == node.slots.size()) throw Failure("a device has no link up the PCI tree");
    std::rotate(node.slots.begin() + static_cast<long>(slot),
                node.slots.begin() + static_cast<long>(slot) + 1, node.slots.end());
  }
  for (size_t link = 0; link < node.links; ++link) {
    const Link& down = node.slots[link];
    if (down.type != kPciLink || (up != nullptr && down.to == *up)) continue;
    sort_links_below(down.to, &ref, depth + 1);
  }
}

}  // namespace gdr::topology::oracle
