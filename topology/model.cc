#include "topology/model.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace gdr::topology {
namespace {

// Sorts `all` and returns the new index of each element, by its old one.
template <class T, class Less>
std::vector<int> sort_and_number(std::vector<T>* all, Less less) {
  std::vector<int> order(all->size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return less((*all)[a], (*all)[b]); });
  std::vector<int> moved_to(all->size());
  std::vector<T> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    moved_to[order[i]] = static_cast<int>(i);
    sorted.push_back(std::move((*all)[order[i]]));
  }
  *all = std::move(sorted);
  return moved_to;
}

void renumber(const std::vector<int>& moved_to, int* index) {
  if (*index >= 0) *index = moved_to[*index];
}

bool by_bdf(const auto& a, const auto& b) { return a.bdf < b.bdf; }

bool hca_less(const Hca& a, const Hca& b) {
  if (a.bdf.has_value() != b.bdf.has_value()) return a.bdf.has_value();
  if (a.bdf != b.bdf) return a.bdf < b.bdf;
  return name_less(a.name, b.name);
}

}  // namespace

bool name_less(const std::string& a, const std::string& b) {
  auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    size_t from_a = i, from_b = j;
    while (i < a.size() && digit(a[i])) ++i;
    while (j < b.size() && digit(b[j])) ++j;
    std::string number_a = a.substr(from_a, i - from_a), number_b = b.substr(from_b, j - from_b);
    number_a.erase(0, std::min(number_a.find_first_not_of('0'), number_a.size()));
    number_b.erase(0, std::min(number_b.find_first_not_of('0'), number_b.size()));
    if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
    if (number_a != number_b) return number_a < number_b;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal but for leading zeros
}

void sort(Machine* machine) {
  auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::vector<int> packages = sort_and_number(&machine->packages, by_id);
  for (NumaNode& node : machine->numa_nodes) renumber(packages, &node.package);
  std::vector<int> numa = sort_and_number(&machine->numa_nodes, by_id);
  std::vector<int> bridges = sort_and_number(&machine->host_bridges, std::less<HostBridge>());
  std::vector<int> switches = sort_and_number(
      &machine->switches, [](const Switch& a, const Switch& b) { return by_bdf(a, b); });
  for_each_attachment(machine, [&](Attachment* at) {
    renumber(switches, &at->parent);
    renumber(numa, &at->numa);
    renumber(bridges, &at->host_bridge);
  });
  std::sort(machine->gpus.begin(), machine->gpus.end(), [](const Gpu& a, const Gpu& b) {
    return a.bdf != b.bdf ? a.bdf < b.bdf : a.partition < b.partition;
  });
  std::sort(machine->hcas.begin(), machine->hcas.end(), hca_less);
  for (Hca& hca : machine->hcas) {
    std::sort(hca.ports.begin(), hca.ports.end(),
              [](const Port& a, const Port& b) { return a.number < b.number; });
  }
}

}  // namespace gdr::topology
