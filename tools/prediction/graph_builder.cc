#include <algorithm>
#include <map>
#include <utility>

#include "tools/prediction/graph.h"
#include "tools/prediction/xml_tree.h"

namespace gdr::topology::nccl {
namespace {

using Kind = XmlElement::Kind;

class GraphBuilder {
 public:
  GraphBuilder(const Machine& machine, const std::vector<PortRef>& devices, const Rules& rules,
               GraphNotes* notes)
      : machine_(machine),
        devices_(devices),
        rules_(rules),
        notes_(notes),
        bandwidths_(machine, devices, rules),
        tree_(make_xml_tree(machine, devices, rules.fuses_ranks)) {}

  Graph build() {
    for (int cpu : tree_.cpus) add_element(element(cpu), -1);
    if (graph_.cpus.empty()) graph_.add(NodeKind::kCpu, -1);
    for (const LinkSource& source : sources_) add_nvlinks(source);
    for (const LinkSource& source : sources_) add_c2c(source);
    if (rules_.knows_pci_peers) add_pci_peers();
    if (!flatten_broadcom(machine_, &graph_)) {
      fail("NCCL finds a Broadcom switch twice while it flattens its parts");
    }
    connect_cpus();
    if (!put_uplinks_last(&graph_)) fail("NCCL does not find its way up and down the PCIe links");
    notes_->assumptions = bandwidths_.assumptions();
    const auto& gpus = machine_.gpus;
    const bool lacks_links =
        std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.nvlinks.empty(); });
    if (gpus.size() > 1 && lacks_links && !machine_.gpu_links_known) {
      notes_->assumptions.emplace_back("NVLinks between GPUs are unknown; none are assumed.");
    }
    return std::move(graph_);
  }

 private:
  // A node that NVLinks and C2C start from, and the GPU that lists them.
  struct LinkSource {
    int node;
    const Gpu* gpu;
  };

  const XmlElement& element(int id) const { return tree_.elements[static_cast<size_t>(id)]; }
  const Gpu& gpu(int index) const { return machine_.gpus[static_cast<size_t>(index)]; }

  void fail(const std::string& why) {
    if (notes_->failure.empty()) notes_->failure = why;
  }

  void add_element(const XmlElement& element, int above) {
    switch (element.kind) {
      case Kind::kCpu: {
        const int cpu = graph_.add(NodeKind::kCpu, element.index);
        return add_children(element, cpu);
      }
      case Kind::kSwitch: {
        const Switch& one = machine_.switches[static_cast<size_t>(element.index)];
        const int node = graph_.add(NodeKind::kSwitch, element.index);
        switches_[one.bdf] = node;
        add_children(element, node);
        return graph_.connect_both(node, above, LinkKind::kPci, bandwidths_.pcie(one.link));
      }
      case Kind::kGpu:
        return rules_.has_dev_nodes ? add_dev_nodes(element, above) : add_gpu(element, above);
      case Kind::kNic:
        return add_nic(element, above);
      case Kind::kNicWithoutPci:
        return add_nic_without_pci(element, above);
    }
  }

  void add_children(const XmlElement& parent, int node) {
    for (int child : parent.children) add_element(element(child), node);
  }

  // Releases before 2.30.3 see one GPU on a PCI function.
  void add_gpu(const XmlElement& element, int above) {
    const int node = graph_.add(NodeKind::kGpu, element.members[0]);
    const Gpu& first = gpu(element.members[0]);
    graph_.connect_both(node, above, LinkKind::kPci, bandwidths_.pcie(first.link));
    add_source(node, first);
    if (element.members.size() > 1) {
      fail("NCCL " + rules_.release.to_string() + " sees only one of the GPUs at " +
           element.address);
    }
  }

  void add_dev_nodes(const XmlElement& element, int above) {
    std::map<int, int> devs;  // by partition
    for (int member : element.members) {
      const Gpu& one = gpu(member);
      const int partition = rules_.knows_partitions ? one.partition : -1;
      if (partition > 1) fail("NCCL knows partitions 0 and 1 of a GPU, not more");
      auto [dev, added] = devs.emplace(partition, -1);
      if (added) {
        dev->second = graph_.add(NodeKind::kDev, member);
        graph_.connect_both(dev->second, above, LinkKind::kPci, bandwidths_.pcie(one.link));
        for (const auto& [other, sibling] : devs) {
          if (other == partition) continue;
          graph_.connect_both(dev->second, sibling, LinkKind::kLocal, kPartitionBandwidth);
        }
        add_source(dev->second, one);
      }
      const int node = graph_.add(NodeKind::kGpu, member);
      graph_.nodes[static_cast<size_t>(node)].dev = dev->second;
      graph_.connect_both(dev->second, node, LinkKind::kLocal, kLocalBandwidth);
    }
  }

  void add_source(int node, const Gpu& one) {
    sources_.push_back({node, &one});
    at_[one.bdf].push_back(node);
  }

  void add_net(int number, int nic) {
    const int node = graph_.add(NodeKind::kNet, number);
    graph_.connect_both(nic, node, LinkKind::kNet,
                        bandwidths_.device(devices_[static_cast<size_t>(number)]));
  }

  // Before 2.24, NCCL drops the number of the function, so that ports of one card are one NIC.
  void add_nic(const XmlElement& element, int above) {
    std::string key = element.address;
    if (!rules_.nic_per_function) key.pop_back();
    auto [nic, added] = nics_.emplace(key, -1);
    if (added) nic->second = graph_.add(NodeKind::kNic, -1);
    for (int number : element.members) add_net(number, nic->second);
    const Hca& hca = hca_of(machine_, devices_[static_cast<size_t>(element.members[0])]);
    if (added) {
      graph_.connect_both(nic->second, above, LinkKind::kPci, bandwidths_.pcie(hca.link));
    }
  }

  // Devices on no PCI function share one NIC, at the first CPU that has any: NCCL drops the number
  // of the NUMA node from the NIC's id.
  void add_nic_without_pci(const XmlElement& element, int cpu) {
    auto [nic, added] = nics_.emplace("", -1);
    if (added) {
      nic->second = graph_.add(NodeKind::kNic, -1);
      graph_.connect_both(cpu, nic->second, LinkKind::kPci, kLocalBandwidth);
    }
    for (int number : element.members) add_net(number, nic->second);
  }

  void add_nvlinks(const LinkSource& source) {
    // NCCL 2.30.5 and later share the NVLinks of a GPU between its partitions, at both ends.
    const auto here = static_cast<float>(at_[source.gpu->bdf].size());
    for (const NvLink& link : source.gpu->nvlinks) {
      const float all = bandwidths_.nvlink(*source.gpu, link);
      if (link.to == NvLink::To::kGpu) {
        auto targets = link.gpu.has_value() ? at_.find(*link.gpu) : at_.end();
        if (targets == at_.end()) continue;
        const auto there = static_cast<float>(targets->second.size());
        for (int target : targets->second) {
          graph_.connect(source.node, target, LinkKind::kNvLink, all / there / here);
        }
      } else {
        const int remote = link.to == NvLink::To::kCpu ? cpu_of(source.node) : nv_switch();
        if (remote >= 0) graph_.connect_both(source.node, remote, LinkKind::kNvLink, all / here);
      }
    }
  }

  int nv_switch() {
    if (graph_.nv_switch < 0) graph_.nv_switch = graph_.add(NodeKind::kNvSwitch, 0);
    return graph_.nv_switch;
  }

  void add_c2c(const LinkSource& source) {
    if (source.gpu->c2c_links <= 0) return;
    const int cpu = cpu_of(source.node);
    if (cpu < 0) return;
    const LinkKind kind = rules_.knows_c2c ? LinkKind::kC2c : LinkKind::kNvLink;
    const float gb_per_s = bandwidths_.c2c(*source.gpu);
    if (at_[source.gpu->bdf].size() < 2) {
      return graph_.connect_both(source.node, cpu, kind, gb_per_s);
    }
    auto [bridge, added] = bridges_.emplace(source.gpu->bdf, -1);
    if (added) {
      bridge->second = graph_.add(NodeKind::kC2cBridge, -1);
      graph_.connect_both(bridge->second, cpu, kind, gb_per_s);
    }
    graph_.connect_both(source.node, bridge->second, kind, gb_per_s);
  }

  // Returns the CPU of a GPU as this release searches for it; -1: it finds none.
  int cpu_of(int node) {
    const int cpu = search_cpu(node, -1, 0);
    if (cpu != kEndless) return cpu;
    fail("NCCL " + rules_.release.to_string() +
         " searches without end for the CPU of a GPU with NVLink or C2C to it, as PCIe switches "
         "are between them");
    return -1;
  }

  static constexpr int kEndless = -2;

  int search_cpu(int node, int from, size_t depth) {
    const Node& here = graph_.nodes[static_cast<size_t>(node)];
    if (here.kind == NodeKind::kCpu) return node;
    if (depth > graph_.nodes.size()) return kEndless;
    for (const Link& link : here.links) {
      if (link.kind != LinkKind::kPci) continue;
      if (rules_.cpu_search == CpuSearch::kForward && link.to == from) continue;
      const NodeKind next = graph_.nodes[static_cast<size_t>(link.to)].kind;
      const bool upward = next == NodeKind::kSwitch || next == NodeKind::kCpu;
      if (rules_.cpu_search != CpuSearch::kAnyDevice && !upward) continue;
      const int found = search_cpu(link.to, node, depth + 1);
      if (found != -1) return found;
    }
    return -1;
  }

  void add_pci_peers() {
    const size_t count = graph_.nodes.size();
    for (size_t node = 0; node < count; ++node) {
      if (graph_.nodes[node].kind != NodeKind::kSwitch) continue;
      const auto index = static_cast<size_t>(graph_.nodes[node].index);
      for (const Bdf& peer : machine_.switches[index].peers) {
        auto target = switches_.find(peer);
        if (target == switches_.end()) continue;
        graph_.connect(static_cast<int>(node), target->second, LinkKind::kLocal, kLocalBandwidth);
      }
    }
  }

  bool is_unknown_numa(int cpu) const {
    const int index = graph_.nodes[static_cast<size_t>(cpu)].index;
    return index >= 0 && machine_.numa_nodes[static_cast<size_t>(index)].id < 0;
  }

  void connect_cpus() {
    if (graph_.cpus.size() < 2) return;
    const float gb_per_s = bandwidths_.between_cpus();
    for (int a : graph_.cpus) {
      if (!rules_.joins_unknown_numa && is_unknown_numa(a)) {
        fail("NCCL " + rules_.release.to_string() +
             " does not connect devices whose NUMA node is unknown (-1) with the others");
      }
      for (int b : graph_.cpus) {
        if (a != b) graph_.connect(a, b, LinkKind::kSys, gb_per_s);
      }
    }
  }

  const Machine& machine_;
  const std::vector<PortRef>& devices_;
  const Rules& rules_;
  GraphNotes* notes_;
  Bandwidths bandwidths_;
  XmlTree tree_;
  Graph graph_;
  std::vector<LinkSource> sources_;
  std::map<Bdf, std::vector<int>> at_;  // nodes of the GPUs at an address
  std::map<Bdf, int> switches_;
  std::map<Bdf, int> bridges_;
  std::map<std::string, int> nics_;
};

}  // namespace

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

Graph build_graph(const Machine& machine, const std::vector<PortRef>& devices, const Rules& rules,
                  GraphNotes* notes) {
  return GraphBuilder(machine, devices, rules, notes).build();
}

}  // namespace gdr::topology::nccl
