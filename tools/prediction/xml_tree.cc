#include "tools/prediction/xml_tree.h"

#include <algorithm>
#include <climits>
#include <map>
#include <tuple>

namespace gdr::topology::nccl {
namespace {

using Kind = XmlElement::Kind;

class XmlTreeBuilder {
 public:
  explicit XmlTreeBuilder(const Machine& machine) : machine_(machine) {}

  void add_gpu(int index, bool sorted) {
    const Gpu& gpu = machine_.gpus[static_cast<size_t>(index)];
    add(Kind::kGpu, gpu.bdf.to_string(), gpu.at, index, sorted);
  }

  void add_device(int number, PortRef port) {
    const Hca& hca = hca_of(machine_, port);
    if (hca.bdf.has_value()) return add(Kind::kNic, hca.bdf->to_string(), hca.at, number, true);
    const int above =
        hca.at.parent >= 0 ? switch_element(hca.at.parent, false) : cpu_element(hca.at.numa);
    insert({Kind::kNicWithoutPci, 0, "", order_of(port), {number}, {}}, above, false);
  }

  // What is added from here on comes last, whatever its position in the file.
  void append_the_rest() { appends_ = true; }

  XmlTree finish(const std::vector<PortRef>& devices) {
    sort_by_order(&tree_.cpus);
    for (XmlElement& element : tree_.elements) {
      sort_by_order(&element.children);
      if (element.kind != Kind::kNic && element.kind != Kind::kNicWithoutPci) continue;
      std::stable_sort(element.members.begin(), element.members.end(), [&](int a, int b) {
        return place(devices[static_cast<size_t>(a)]) < place(devices[static_cast<size_t>(b)]);
      });
    }
    return std::move(tree_);
  }

 private:
  void add(Kind kind, const std::string& address, const Attachment& at, int member, bool sorted) {
    const int above = at.parent >= 0 ? switch_element(at.parent, sorted) : cpu_element(at.numa);
    auto key = std::make_tuple(kind, address, above);
    auto known = functions_.find(key);
    if (known == functions_.end()) {
      known = functions_.emplace(key, insert({kind, 0, address, at.order, {}, {}}, above, sorted))
                  .first;
    }
    tree_.elements[static_cast<size_t>(known->second)].members.push_back(member);
  }

  int cpu_element(int numa) {
    auto [known, added] = cpus_.emplace(numa, static_cast<int>(tree_.elements.size()));
    if (!added) return known->second;
    const int order =
        numa < 0 || appends_ ? -1 : machine_.numa_nodes[static_cast<size_t>(numa)].order;
    tree_.elements.push_back({Kind::kCpu, numa, "", order, {}, {}});
    tree_.cpus.push_back(known->second);
    return known->second;
  }

  int switch_element(int index, bool sorted) {
    auto known = switches_.find(index);
    if (known != switches_.end()) return known->second;
    const Switch& one = machine_.switches[static_cast<size_t>(index)];
    const int above =
        one.at.parent >= 0 ? switch_element(one.at.parent, sorted) : cpu_element(one.at.numa);
    const int element =
        insert({Kind::kSwitch, index, one.bdf.to_string(), one.at.order, {}, {}}, above, sorted);
    switches_.emplace(index, element);
    return element;
  }

  // Adds the element below `above`: before the first sibling with a greater address, or last.
  int insert(XmlElement element, int above, bool sorted) {
    if (appends_) element.order = -1;
    const int id = static_cast<int>(tree_.elements.size());
    std::vector<int>& siblings = tree_.elements[static_cast<size_t>(above)].children;
    auto at = siblings.end();
    if (sorted) {
      at = std::find_if(siblings.begin(), siblings.end(), [&](int sibling) {
        return element.address < tree_.elements[static_cast<size_t>(sibling)].address;
      });
    }
    siblings.insert(at, id);
    tree_.elements.push_back(std::move(element));
    return id;
  }

  static int position(int order) { return order < 0 ? INT_MAX : order; }

  void sort_by_order(std::vector<int>* elements) {
    std::stable_sort(elements->begin(), elements->end(), [&](int a, int b) {
      return position(tree_.elements[static_cast<size_t>(a)].order) <
             position(tree_.elements[static_cast<size_t>(b)].order);
    });
  }

  // Devices of a file are in the order of its <net> entries, others in that of their numbers.
  int place(PortRef port) const { return position(order_of(port)); }

  // A port that the file does not list has the position of its HCA there.
  int order_of(PortRef port) const {
    const int order = port_of(machine_, port).order;
    return order < 0 ? hca_of(machine_, port).at.order : order;
  }

  const Machine& machine_;
  XmlTree tree_;
  bool appends_ = false;
  std::map<int, int> cpus_;      // by index in Machine::numa_nodes
  std::map<int, int> switches_;  // by index in Machine::switches
  std::map<std::tuple<Kind, std::string, int>, int> functions_;
};

}  // namespace

XmlTree make_xml_tree(const Machine& machine, const std::vector<PortRef>& devices,
                      bool fuses_ranks) {
  XmlTreeBuilder builder(machine);
  const int gpus = static_cast<int>(machine.gpus.size());
  const int first = fuses_ranks ? std::min(gpus, 1) : gpus;
  for (int gpu = 0; gpu < first; ++gpu) builder.add_gpu(gpu, true);
  for (size_t i = 0; i < devices.size(); ++i) {
    builder.add_device(static_cast<int>(i), devices[i]);
  }
  builder.append_the_rest();
  for (int gpu = first; gpu < gpus; ++gpu) builder.add_gpu(gpu, false);
  return builder.finish(devices);
}

}  // namespace gdr::topology::nccl
