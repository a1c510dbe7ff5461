#include "tools/doctor/differences.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
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
                        const std::vector<Property>& second, std::vector<Difference>* list) {
  for (const Property& one : first) {
    const Property* other = find_property(second, one.name);
    if (other == nullptr || !one.value.has_value() || !other->value.has_value()) continue;
    if (one.value == other->value) continue;
    list->push_back({Difference::Kind::kValue, subject, one.name, *one.value, *other->value});
  }
}

// A variable that a machine does not have is unset there, which is known.
void compare_settings(const Settings& first, const Settings& second,
                      std::vector<Difference>* list) {
  Settings all = first;
  all.insert(second.begin(), second.end());
  auto value_in = [](const Settings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? "unset" : found->second;
  };
  for (const auto& [name, unused] : all) {
    const std::string one = value_in(first, name), other = value_in(second, name);
    if (one != other) list->push_back({Difference::Kind::kValue, "", name, one, other});
  }
}

// The devices of one kind, and which belong together.
struct DeviceComparison {
  Difference::Device kind;
  const std::vector<DeviceProfile>& first;
  const std::vector<DeviceProfile>& second;
  const Matches& matches;
};

void compare_devices(const DeviceComparison& devices, std::vector<Difference>* list) {
  const size_t before = list->size();
  for (const Match& match : devices.matches) {
    if (match.second < 0) {
      const std::string name = full_name(devices.first[static_cast<size_t>(match.first)]);
      list->push_back({Difference::Kind::kOnlyInFirst, name, "", "", ""});
    } else if (match.first < 0) {
      const std::string name = full_name(devices.second[static_cast<size_t>(match.second)]);
      list->push_back({Difference::Kind::kOnlyInSecond, name, "", "", ""});
    } else {
      const DeviceProfile& one = devices.first[static_cast<size_t>(match.first)];
      const DeviceProfile& other = devices.second[static_cast<size_t>(match.second)];
      compare_properties(one.label, one.properties, other.properties, list);
    }
  }
  for (size_t i = before; i < list->size(); ++i) (*list)[i].device = devices.kind;
}

// Compares switches by their addresses or, where that leaves fewer differences, by their order.
// Nothing is compared where one of the machines does not state them.
void compare_switches(const Profile& first, const Profile& second, std::vector<Difference>* list) {
  if (!first.switches_known || !second.switches_known) return;
  auto compare = [&](const std::vector<AreSame>& rules) {
    const Matches matches = match_devices(first.switches, second.switches, rules);
    std::vector<Difference> found;
    compare_devices({Difference::Device::kSwitch, first.switches, second.switches, matches},
                    &found);
    return found;
  };
  const std::vector<Difference> by_address = compare({have_same_address, are_any});
  const std::vector<Difference> by_order = compare({are_any});
  const auto& found = by_order.size() < by_address.size() ? by_order : by_address;
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
  const std::string& name = one.property;
  if (name == "NCCL's failure" || name == "rails that NCCL uses") return 5;
  if (one.kind != Difference::Kind::kValue || one.subject.empty()) return 0;
  if (name == "GPUDirect receive" || name == "GPUDirect send") return 4;
  if (name == "rails" || name == "path to its rail" || name.ends_with(" role")) return 3;
  return name.starts_with("path to ") ? 2 : 1;
}

std::vector<Difference> compare_matched(const Profile& first, const Profile& second,
                                        const Matches& gpus, const Matches& hcas) {
  using Device = Difference::Device;
  std::vector<Difference> list;
  compare_properties("", first.properties, second.properties, &list);
  compare_settings(first.settings, second.settings, &list);
  compare_devices({Device::kGpu, first.gpus, second.gpus, gpus}, &list);
  compare_devices({Device::kHca, first.hcas, second.hcas, hcas}, &list);
  compare_switches(first, second, &list);
  compare_paths({first.gpu_gpu, second.gpu_gpu, gpus, gpus, true}, first.gpus, &list);
  compare_paths({first.gpu_hca, second.gpu_hca, gpus, hcas, false}, first.hcas, &list);
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

}  // namespace

// One more card moves the bus numbers of all that follow, so that an address may be another
// device's on the other machine. The way that leaves the machines most alike is taken.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second) {
  std::optional<std::vector<Difference>> fewest;
  for (const Matches& gpus : ways_to_match(first.gpus, second.gpus)) {
    for (const Matches& hcas : ways_to_match(first.hcas, second.hcas)) {
      std::vector<Difference> list = compare_matched(first, second, gpus, hcas);
      if (!fewest.has_value() || list.size() < fewest->size()) fewest = std::move(list);
    }
  }
  return std::move(*fewest);
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
    groups[i].subject = topo::short_list(subjects[i]);
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
  return subject + difference.property + ": " + difference.first + " in " + first + ", " +
         difference.second + " in " + second;
}

std::string expecting_text(const Difference& difference) {
  if (difference.kind != Difference::Kind::kValue) {
    const bool only_first = difference.kind == Difference::Kind::kOnlyInFirst;
    return difference.subject + verb_of(difference) + (only_first ? "unexpected" : "missing");
  }
  const std::string subject = difference.subject.empty() ? "" : difference.subject + ": ";
  std::string found = difference.first, expected = difference.second;
  const std::string target = common_target(&found, &expected);
  return subject + difference.property + ": " + found + ", expected " + expected + target;
}

}  // namespace gdr::tools::doctor
