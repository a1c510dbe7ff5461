#include "tools/topo/diff.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>

#include "tools/topo/short_list.h"

namespace gdr::tools::topo {
namespace {

// A device of each machine that belong together, as positions; -1: the machine has none.
struct Match {
  int first = -1;
  int second = -1;
};

using AreSame = std::function<bool(const DeviceProfile&, const DeviceProfile&)>;
using Matches = std::vector<Match>;

bool are_any(const DeviceProfile&, const DeviceProfile&) { return true; }

bool have_same_label(const DeviceProfile& a, const DeviceProfile& b) { return a.label == b.label; }

bool have_same_address(const DeviceProfile& a, const DeviceProfile& b) {
  return !a.address.empty() && a.address == b.address;
}

bool have_same_label_and_address(const DeviceProfile& a, const DeviceProfile& b) {
  return a.address == b.address && a.label == b.label;
}

void pair_up(const std::vector<DeviceProfile>& first, const std::vector<DeviceProfile>& second,
             const AreSame& are_same, Matches* matches, std::vector<bool>* taken) {
  for (size_t i = 0; i < first.size(); ++i) {
    if ((*matches)[i].second >= 0) continue;
    for (size_t j = 0; j < second.size(); ++j) {
      if ((*taken)[j] || !are_same(first[i], second[j])) continue;
      (*matches)[i].second = static_cast<int>(j);
      (*taken)[j] = true;
      break;
    }
  }
}

// Each rule pairs up what the rules before it left.
Matches match_devices(const std::vector<DeviceProfile>& first,
                      const std::vector<DeviceProfile>& second, const std::vector<AreSame>& rules) {
  Matches matches(first.size());
  for (size_t i = 0; i < first.size(); ++i) matches[i].first = static_cast<int>(i);
  std::vector<bool> taken(second.size(), false);
  for (const AreSame& are_same : rules) pair_up(first, second, are_same, &matches, &taken);
  for (size_t j = 0; j < second.size(); ++j) {
    if (!taken[j]) matches.push_back({-1, static_cast<int>(j)});
  }
  return matches;
}

// The ways in which devices may belong together: by address, by name, by order.
std::vector<Matches> ways_to_match(const std::vector<DeviceProfile>& first,
                                   const std::vector<DeviceProfile>& second) {
  return {match_devices(first, second,
                        {have_same_label_and_address, have_same_address, have_same_label, are_any}),
          match_devices(first, second, {have_same_label, are_any}),
          match_devices(first, second, {are_any})};
}

// A switch has no other name than its address.
std::string full_name(const DeviceProfile& device) {
  return device.label.ends_with(device.address) ? device.label
                                                : device.label + " (" + device.address + ")";
}

const Property* find_property(const std::vector<Property>& properties, const std::string& name) {
  for (const Property& one : properties) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

void compare_properties(const std::string& subject, const std::vector<Property>& first,
                        const std::vector<Property>& second, const std::set<Aspect>& aspects,
                        std::vector<Difference>* list) {
  auto compare = [&](const Property& property, const std::optional<std::string>& a,
                     const std::optional<std::string>& b) {
    if (aspects.count(property.aspect) == 0 || a == b) return;
    list->push_back({Difference::Kind::kValue, subject, property.name, a, b});
  };
  for (const Property& one : first) {
    const Property* other = find_property(second, one.name);
    compare(one, one.value, other == nullptr ? std::nullopt : other->value);
  }
  for (const Property& other : second) {
    if (find_property(first, other.name) == nullptr) compare(other, std::nullopt, other.value);
  }
}

// The devices of one kind, and which belong together.
struct DeviceComparison {
  Difference::Device kind;
  const std::vector<DeviceProfile>& first;
  const std::vector<DeviceProfile>& second;
  const Matches& matches;
};

void compare_devices(const DeviceComparison& devices, const std::set<Aspect>& aspects,
                     const std::set<std::string>& excluded, std::vector<Difference>* list) {
  const size_t before = list->size();
  for (const Match& match : devices.matches) {
    if (match.second < 0) {
      const std::string name = full_name(devices.first[static_cast<size_t>(match.first)]);
      list->push_back({Difference::Kind::kOnlyInFirst, name, "", {}, {}});
    } else if (match.first < 0) {
      const DeviceProfile& other = devices.second[static_cast<size_t>(match.second)];
      const char* why = excluded.count(other.label) > 0 ? "excluded by NCCL_IB_HCA" : "";
      list->push_back({Difference::Kind::kOnlyInSecond, full_name(other), why, {}, {}});
    } else {
      const DeviceProfile& one = devices.first[static_cast<size_t>(match.first)];
      const DeviceProfile& other = devices.second[static_cast<size_t>(match.second)];
      compare_properties(one.label, one.properties, other.properties, aspects, list);
    }
  }
  for (size_t i = before; i < list->size(); ++i) (*list)[i].device = devices.kind;
}

// Compares switches by their addresses or, where that leaves fewer differences of the shape, by
// their order. Nothing is compared where one of the machines does not state them.
void compare_switches(const Profile& first, const Profile& second, const std::set<Aspect>& aspects,
                      std::vector<Difference>* list) {
  if (!first.switches_known || !second.switches_known) return;
  const std::vector<Matches> ways = {
      match_devices(first.switches, second.switches, {have_same_address, are_any}),
      match_devices(first.switches, second.switches, {are_any})};
  auto compare = [&](const Matches& matches, const std::set<Aspect>& compared) {
    std::vector<Difference> found;
    compare_devices({Difference::Device::kSwitch, first.switches, second.switches, matches},
                    compared, {}, &found);
    return found;
  };
  const bool by_order =
      compare(ways[1], {Aspect::kShape}).size() < compare(ways[0], {Aspect::kShape}).size();
  const std::vector<Difference> found = compare(ways[by_order ? 1 : 0], aspects);
  list->insert(list->end(), found.begin(), found.end());
}

std::optional<std::string> cell(const PathMatrix& matrix, int row, int column) {
  const auto i = static_cast<size_t>(row), j = static_cast<size_t>(column);
  return i < matrix.size() && j < matrix[i].size() ? matrix[i][j] : std::nullopt;
}

// Compares the paths of each device in `columns` to the GPUs; those that differ become one
// difference. With `later_only`, columns are GPUs too, and each pair is compared once.
struct PathComparison {
  const PathMatrix& first;
  const PathMatrix& second;
  const Matches& gpus;
  const Matches& columns;
  bool later_only;
};

void compare_paths(const PathComparison& paths, const std::vector<DeviceProfile>& devices,
                   std::vector<Difference>* list) {
  for (const Match& column : paths.columns) {
    if (column.first < 0 || column.second < 0) continue;
    std::string names, in_first, in_second;
    for (const Match& gpu : paths.gpus) {
      if (gpu.first < 0 || gpu.second < 0) continue;
      if (paths.later_only && gpu.first <= column.first) continue;
      const auto a = cell(paths.first, gpu.first, column.first);
      const auto b = cell(paths.second, gpu.second, column.second);
      if (!a.has_value() || !b.has_value() || a == b) continue;
      const char* between = names.empty() ? "" : ", ";
      names += between + ("GPU" + std::to_string(gpu.first));
      in_first += between + *a;
      in_second += between + *b;
    }
    if (names.empty()) continue;
    list->push_back({Difference::Kind::kValue, devices[static_cast<size_t>(column.first)].label,
                     "path to " + names, in_first, in_second,
                     paths.later_only ? Difference::Device::kGpu : Difference::Device::kHca});
  }
}

// The lower, the nearer to the cause.
int rank_of(const Difference& one) {
  if (one.kind != Difference::Kind::kValue) return 0;
  const std::string& name = one.property;
  if (name == "NCCL's failure" || name == "rails that NCCL uses") return 5;
  if (name == "GPUDirect receive" || name == "GPUDirect send") return 4;
  if (name == "rails" || name == "path to its rail" || name.ends_with(" role")) return 3;
  return name.starts_with("path to ") ? 2 : 1;
}

std::vector<Difference> compare_matched(const Profile& first, const Profile& second,
                                        const Matches& gpus, const Matches& hcas,
                                        const std::set<Aspect>& aspects) {
  std::vector<Difference> list;
  compare_properties("", first.properties, second.properties, aspects, &list);
  using Device = Difference::Device;
  compare_devices({Device::kGpu, first.gpus, second.gpus, gpus}, aspects, {}, &list);
  compare_devices({Device::kHca, first.hcas, second.hcas, hcas}, aspects, first.excluded_hcas,
                  &list);
  compare_switches(first, second, aspects, &list);
  if (aspects.count(Aspect::kShape) > 0) {
    compare_paths({first.gpu_gpu, second.gpu_gpu, gpus, gpus, true}, first.gpus, &list);
    compare_paths({first.gpu_hca, second.gpu_hca, gpus, hcas, false}, first.hcas, &list);
  }
  std::stable_sort(list.begin(), list.end(), [](const Difference& a, const Difference& b) {
    return rank_of(a) < rank_of(b);
  });
  return list;
}

// Takes " to NVSwitches" off both values where they end in the same target, and returns it.
std::string common_target(std::string* first, std::string* second) {
  const size_t a = first->find(" to "), b = second->find(" to ");
  if (a == std::string::npos || b == std::string::npos) return "";
  const std::string target = first->substr(a + 1);
  if (target != second->substr(b + 1) || target.find(',') != std::string::npos) return "";
  first->resize(a);
  second->resize(b);
  return " (" + target + ")";
}

const char* verb_of(const Difference& difference) { return difference.several ? " are " : " is "; }

std::string value_text(const std::optional<std::string>& value) {
  return value.value_or("unknown");
}

}  // namespace

// One more card moves the bus numbers of all that follow, so that an address may be another
// device's on the other machine. The way that leaves the shapes most alike is taken.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second,
                                         const std::set<Aspect>& aspects) {
  const std::vector<Matches> ways_of_gpus = ways_to_match(first.gpus, second.gpus);
  const std::vector<Matches> ways_of_hcas = ways_to_match(first.hcas, second.hcas);
  const Matches* gpus = nullptr;
  const Matches* hcas = nullptr;
  size_t fewest = SIZE_MAX;
  for (const Matches& some_gpus : ways_of_gpus) {
    for (const Matches& some_hcas : ways_of_hcas) {
      const size_t differences =
          compare_matched(first, second, some_gpus, some_hcas, {Aspect::kShape}).size();
      if (differences >= fewest) continue;
      fewest = differences;
      gpus = &some_gpus;
      hcas = &some_hcas;
    }
  }
  return compare_matched(first, second, *gpus, *hcas, aspects);
}

void drop_unknown_in_second(std::vector<Difference>* list) {
  std::erase_if(*list, [](const Difference& one) {
    return one.kind == Difference::Kind::kValue && !one.second.has_value();
  });
}

std::vector<Difference> grouped(const std::vector<Difference>& list) {
  std::vector<Difference> groups;
  std::vector<std::vector<std::string>> subjects;
  for (const Difference& one : list) {
    auto is_like = [&](const Difference& other) {
      return std::tie(one.kind, one.device, one.property, one.first, one.second) ==
             std::tie(other.kind, other.device, other.property, other.first, other.second);
    };
    const auto group =
        one.subject.empty() ? groups.end() : std::find_if(groups.begin(), groups.end(), is_like);
    const auto position = static_cast<size_t>(group - groups.begin());
    if (group == groups.end()) {
      groups.push_back(one);
      subjects.emplace_back();
    }
    subjects[position].push_back(one.subject);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].subject = short_list(subjects[i]);
    groups[i].several = subjects[i].size() > 1;
  }
  return groups;
}

std::string comparing_text(const Difference& difference, const std::string& first,
                           const std::string& second) {
  if (difference.kind != Difference::Kind::kValue) {
    const bool only_first = difference.kind == Difference::Kind::kOnlyInFirst;
    return difference.subject + verb_of(difference) + "only in " + (only_first ? first : second);
  }
  const std::string subject = difference.subject.empty() ? "" : difference.subject + ": ";
  return subject + difference.property + ": " + value_text(difference.first) + " in " + first +
         ", " + value_text(difference.second) + " in " + second;
}

std::string expecting_text(const Difference& difference) {
  if (difference.kind == Difference::Kind::kOnlyInFirst)
    return difference.subject + verb_of(difference) + "unexpected";
  if (difference.kind == Difference::Kind::kOnlyInSecond) {
    return difference.subject + verb_of(difference) +
           (difference.property.empty() ? "missing" : difference.property);
  }
  const std::string subject = difference.subject.empty() ? "" : difference.subject + ": ";
  std::string found = value_text(difference.first), expected = value_text(difference.second);
  const std::string target = common_target(&found, &expected);
  return subject + difference.property + ": " + found + ", expected " + expected + target;
}

}  // namespace gdr::tools::topo
