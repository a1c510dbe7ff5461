#include "tools/doctor/differences.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace gdr::tools::doctor {
namespace {

using Devices = std::vector<Device>;
using Differences = std::vector<Difference>;

// Two devices that belong together; null: the machine has no such device.
struct DevicePair {
  std::string kind;
  const Device* first;
  const Device* second;
};
using DevicePairs = std::vector<DevicePair>;
using AreSame = bool (*)(const Device&, const Device&);

bool have_same_address(const Device& a, const Device& b) {
  return !a.address.empty() && a.address == b.address;
}
bool have_same_name(const Device& a, const Device& b) { return a.name == b.name; }
bool are_any(const Device&, const Device&) { return true; }

// Each rule pairs up what the rules before it left, in order.
DevicePairs pair_up(const std::string& kind, const Devices& first, const Devices& second,
                    std::initializer_list<AreSame> rules) {
  DevicePairs pairs;
  std::vector<const Device*> rest;
  for (const Device& one : first) pairs.push_back({kind, &one, nullptr});
  for (const Device& one : second) rest.push_back(&one);
  for (const AreSame are_same : rules) {
    for (DevicePair& pair : pairs) {
      if (pair.second != nullptr) continue;
      const auto same = std::find_if(rest.begin(), rest.end(), [&](const Device* other) {
        return are_same(*pair.first, *other);
      });
      if (same == rest.end()) continue;
      pair.second = *same;
      rest.erase(same);
    }
  }
  for (const Device* other : rest) pairs.push_back({kind, nullptr, other});
  return pairs;
}

// Adds the values that both have and that differ; the property of `of` precedes their names.
void compare_facts(const Difference& of, const Facts& first, const Facts& second,
                   Differences* list) {
  for (const auto& [name, value] : first) {
    const auto other = second.find(name);
    if (other == second.end() || other->second == value) continue;
    list->push_back({of.subject, of.property + name, value, other->second, of.kind});
  }
}

void compare_devices(const DevicePairs& pairs, Facts Device::*facts, Differences* list) {
  for (const DevicePair& pair : pairs) {
    if (pair.first == nullptr || pair.second == nullptr) continue;
    compare_facts({.subject = pair.first->name, .kind = pair.kind}, pair.first->*facts,
                  pair.second->*facts, list);
  }
}

// Adds the paths between two devices once: to those that come later. The second machine's go by the
// names that devices have on the first one.
void compare_paths(const DevicePairs& pairs, Differences* list) {
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [kind, first, second] = pairs[i];
    if (first == nullptr || second == nullptr) continue;
    Facts renamed;
    for (size_t later = i + 1; later < pairs.size(); ++later) {
      const auto& [unused, to, other_to] = pairs[later];
      if (to == nullptr || other_to == nullptr) continue;
      const auto path = second->paths.find(other_to->name);
      if (path != second->paths.end()) renamed[to->name] = path->second;
    }
    compare_facts({.subject = first->name, .property = "path to ", .kind = kind}, first->paths,
                  renamed, list);
  }
}

// Pairs up by order, but for the one device that the machine with more of them has at `gap`.
DevicePairs pairs_with_gap(const std::string& kind, const Devices& first, const Devices& second,
                           size_t gap) {
  std::vector<const Device*> left, right;
  for (const Device& one : first) left.push_back(&one);
  for (const Device& one : second) right.push_back(&one);
  auto& fewer = first.size() < second.size() ? left : right;
  fewer.insert(fewer.begin() + static_cast<std::ptrdiff_t>(gap), nullptr);
  DevicePairs pairs;
  for (size_t i = 0; i < left.size(); ++i) pairs.push_back({kind, left[i], right[i]});
  return pairs;
}

// The changes of devices and of their paths, then those of choices: one missing HCA renumbers the
// rails of many.
std::pair<size_t, size_t> changes_in(const DevicePairs& pairs) {
  Differences devices, choices;
  compare_devices(pairs, &Device::properties, &devices);
  compare_paths(pairs, &devices);
  compare_devices(pairs, &Device::choices, &choices);
  return {devices.size(), choices.size()};
}

void append(const DevicePairs& more, DevicePairs* pairs) {
  pairs->insert(pairs->end(), more.begin(), more.end());
}

// One more card moves the bus numbers of all that follow, so that an address may be another
// device's on the other machine. `pairs` has those of other kinds, to which paths lead.
void add_best_pairs(const std::string& kind, const Devices& first, const Devices& second,
                    DevicePairs* pairs) {
  const DevicePairs before = *pairs;
  append(pair_up(kind, first, second, {have_same_address, have_same_name, are_any}), pairs);
  auto fewest = changes_in(*pairs);
  const auto consider = [&](const DevicePairs& others) {
    DevicePairs all = before;
    append(others, &all);
    const auto changes = changes_in(all);
    if (changes >= fewest) return;
    fewest = changes;
    *pairs = std::move(all);
  };
  consider(pair_up(kind, first, second, {have_same_name, are_any}));
  consider(pair_up(kind, first, second, {are_any}));
  const auto [fewer, more] = std::minmax({first.size(), second.size()});
  for (size_t gap = 0; gap + 1 < more && fewer + 1 == more; ++gap) {
    consider(pairs_with_gap(kind, first, second, gap));
  }
}

DevicePairs pairs_of(const Profile& first, const Profile& second) {
  const auto devices = [](const Profile& profile, const char* kind) -> const Devices& {
    static const Devices kNone;
    const auto found = profile.devices.find(kind);
    return found == profile.devices.end() ? kNone : found->second;
  };
  DevicePairs pairs;
  for (const char* kind : {kGpuKind, kHcaKind, kSwitchKind}) {
    add_best_pairs(kind, devices(first, kind), devices(second, kind), &pairs);
  }
  return pairs;
}

// A switch has no other name than its address.
std::string full_name(const Device& device) {
  return device.name.ends_with(device.address) ? device.name
                                               : device.name + " (" + device.address + ")";
}

void compare_presence(const DevicePairs& pairs, Differences* list) {
  for (const auto& [kind, first, second] : pairs) {
    if (first == nullptr) list->push_back({full_name(*second), kPresence, "no", "yes", kind});
    if (second == nullptr) list->push_back({full_name(*first), kPresence, "yes", "no", kind});
  }
}

// A variable that a machine does not have is unset there, which is known.
void compare_settings(Facts first, Facts second, Differences* list) {
  for (const auto& [name, unused] : second) first.emplace(name, "unset");
  for (const auto& [name, unused] : first) second.emplace(name, "unset");
  compare_facts({}, first, second, list);
}

}  // namespace

std::vector<Difference> compare_profiles(const Profile& first, const Profile& second) {
  Differences list;
  compare_facts({}, first.machine, second.machine, &list);
  compare_settings(first.settings, second.settings, &list);
  const DevicePairs pairs = pairs_of(first, second);
  if (first.has_topology && second.has_topology) compare_presence(pairs, &list);
  compare_devices(pairs, &Device::properties, &list);
  compare_paths(pairs, &list);
  compare_devices(pairs, &Device::choices, &list);
  std::stable_partition(list.begin(), list.end(),
                        [](const Difference& one) { return one.property != kNcclFailure; });
  return list;
}

}  // namespace gdr::tools::doctor
