#include "topology/nccl/document.h"

#include <algorithm>
#include <climits>
#include <map>
#include <tuple>

namespace gdr::topology::nccl {
namespace {

using Kind = DocumentItem::Kind;

class DocumentBuilder {
 public:
  explicit DocumentBuilder(const Machine& machine) : machine_(machine) {}

  void add_gpu(int index, bool sorted) {
    const Gpu& gpu = machine_.gpus[static_cast<size_t>(index)];
    add(Kind::kGpu, gpu.bdf.to_string(), gpu.at, index, sorted);
  }

  void add_device(int number, PortRef port) {
    const Hca& hca = hca_of(machine_, port);
    if (hca.bdf.has_value()) return add(Kind::kNic, hca.bdf->to_string(), hca.at, number, true);
    const int above =
        hca.at.parent >= 0 ? switch_item(hca.at.parent, false) : cpu_item(hca.at.numa);
    insert({Kind::kNicWithoutPci, 0, "", order_of(port), {number}, {}}, above, false);
  }

  Document finish(const std::vector<PortRef>& devices) {
    sort_by_order(&document_.cpus);
    for (DocumentItem& item : document_.items) {
      sort_by_order(&item.children);
      if (item.kind != Kind::kNic && item.kind != Kind::kNicWithoutPci) continue;
      std::stable_sort(item.members.begin(), item.members.end(), [&](int a, int b) {
        return place(devices[static_cast<size_t>(a)]) < place(devices[static_cast<size_t>(b)]);
      });
    }
    return std::move(document_);
  }

 private:
  void add(Kind kind, const std::string& address, const Attachment& at, int member, bool sorted) {
    const int above = at.parent >= 0 ? switch_item(at.parent, sorted) : cpu_item(at.numa);
    auto key = std::make_tuple(kind, address, above);
    auto known = functions_.find(key);
    if (known == functions_.end()) {
      known = functions_.emplace(key, insert({kind, 0, address, at.order, {}, {}}, above, sorted))
                  .first;
    }
    document_.items[static_cast<size_t>(known->second)].members.push_back(member);
  }

  int cpu_item(int numa) {
    auto [known, added] = cpus_.emplace(numa, static_cast<int>(document_.items.size()));
    if (!added) return known->second;
    const int order = numa < 0 ? -1 : machine_.numa_nodes[static_cast<size_t>(numa)].order;
    document_.items.push_back({Kind::kCpu, numa, "", order, {}, {}});
    document_.cpus.push_back(known->second);
    return known->second;
  }

  int switch_item(int index, bool sorted) {
    auto known = switches_.find(index);
    if (known != switches_.end()) return known->second;
    const Switch& one = machine_.switches[static_cast<size_t>(index)];
    const int above =
        one.at.parent >= 0 ? switch_item(one.at.parent, sorted) : cpu_item(one.at.numa);
    const int item =
        insert({Kind::kSwitch, index, one.bdf.to_string(), one.at.order, {}, {}}, above, sorted);
    switches_.emplace(index, item);
    return item;
  }

  // Adds the item below `above`: before the first sibling with a greater address, or last.
  int insert(DocumentItem item, int above, bool sorted) {
    const int id = static_cast<int>(document_.items.size());
    std::vector<int>& siblings = document_.items[static_cast<size_t>(above)].children;
    auto at = siblings.end();
    if (sorted) {
      at = std::find_if(siblings.begin(), siblings.end(), [&](int sibling) {
        return item.address < document_.items[static_cast<size_t>(sibling)].address;
      });
    }
    siblings.insert(at, id);
    document_.items.push_back(std::move(item));
    return id;
  }

  static int position(int order) { return order < 0 ? INT_MAX : order; }

  void sort_by_order(std::vector<int>* items) {
    std::stable_sort(items->begin(), items->end(), [&](int a, int b) {
      return position(document_.items[static_cast<size_t>(a)].order) <
             position(document_.items[static_cast<size_t>(b)].order);
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
  Document document_;
  std::map<int, int> cpus_;      // by index in Machine::numa_nodes
  std::map<int, int> switches_;  // by index in Machine::switches
  std::map<std::tuple<Kind, std::string, int>, int> functions_;
};

}  // namespace

Document make_document(const Machine& machine, const std::vector<PortRef>& devices,
                       bool fuses_ranks) {
  DocumentBuilder builder(machine);
  const int gpus = static_cast<int>(machine.gpus.size());
  const int first = fuses_ranks ? std::min(gpus, 1) : gpus;
  for (int gpu = 0; gpu < first; ++gpu) builder.add_gpu(gpu, true);
  for (size_t i = 0; i < devices.size(); ++i) {
    builder.add_device(static_cast<int>(i), devices[i]);
  }
  for (int gpu = first; gpu < gpus; ++gpu) builder.add_gpu(gpu, false);
  return builder.finish(devices);
}

}  // namespace gdr::topology::nccl
