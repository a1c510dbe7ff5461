#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "tools/doctor/report/profile.h"

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

// What distinguishes a device; "" where that is unknown.
using Identity = std::string (*)(const Device&);

// Several partitions of a GPU have one PCI function.
std::string function_of(const Device& device) {
  std::string text = device.address;
  for (const char* more : {"PCI device", "partition"}) {
    const auto found = device.properties.find(more);
    if (!text.empty() && found != device.properties.end()) text += " " + found->second;
  }
  return text;
}
// Several RDMA devices may have one PCI function.
std::string named_function(const Device& device) {
  return device.address.empty() ? "" : function_of(device) + " " + device.name;
}
// All functions of a card have one GUID; their numbers stay where bus numbers move.
std::string guid_of(const Device& device) {
  if (device.guid.empty() || device.address.empty()) return device.guid;
  return device.guid + device.address.substr(device.address.find('.'));
}
std::string name_of(const Device& device) { return device.name; }

// The devices that have no counterpart yet.
struct Unpaired {
  std::vector<const Device*> first, second;
};
using ByIdentity = std::map<std::string, const Device*>;

// Returns nothing where two devices have the same identity.
std::optional<ByIdentity> by_identity(const std::vector<const Device*>& devices,
                                      Identity identity) {
  ByIdentity found;
  for (const Device* one : devices) {
    const std::string key = identity(*one);
    if (!key.empty() && !found.emplace(key, one).second) return {};
  }
  return found;
}

// Pairs up the devices of the same identity. `is_unique` says that no other device in the world has
// it: most devices have to be the same then, since a card that was moved to another machine says
// nothing of its slot there. Otherwise those of one machine have to be a subset of the other's: one
// more card moves the bus numbers of others, so that some addresses are those of other devices.
void pair_by(Identity identity, bool is_unique, Unpaired* rest, DevicePairs* pairs) {
  const auto first = by_identity(rest->first, identity);
  const auto second = by_identity(rest->second, identity);
  if (!first || !second) return;
  DevicePairs found;
  for (const auto& [key, device] : *first) {
    const auto same = second->find(key);
    if (same != second->end()) found.push_back({"", device, same->second});
  }
  const size_t most = std::min(first->size(), second->size());
  if (is_unique ? 2 * found.size() <= most : found.size() < most) return;
  for (const DevicePair& pair : found) {
    std::erase(rest->first, pair.first);
    std::erase(rest->second, pair.second);
  }
  pairs->insert(pairs->end(), found.begin(), found.end());
}

// Names of devices with numbers, in the order of these.
std::vector<std::string> sorted_names(const std::vector<const Device*>& devices) {
  std::vector<std::string> names;
  for (const Device* one : devices) names.push_back(one->name);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return names;
}

// Whether the names are numbers that the kernel gave in the order in which it found the devices, so
// that one less moves the names of others: mlx5_0 to mlx5_6 of mlx5_0 to mlx5_7.
bool are_names_mere_numbers(const Unpaired& rest) {
  std::vector<std::string> fewer = sorted_names(rest.first), more = sorted_names(rest.second);
  if (fewer.size() > more.size()) std::swap(fewer, more);
  return fewer.size() < more.size() && std::equal(fewer.begin(), fewer.end(), more.begin());
}

// Whether one card has two addresses. Bus numbers have then moved, as where a board with its switch
// is lost, so that addresses show no slots.
bool have_moved(const DevicePairs& pairs) {
  return std::any_of(pairs.begin(), pairs.end(), [](const DevicePair& pair) {
    return pair.first != nullptr && pair.second != nullptr && !pair.first->guid.empty() &&
           pair.first->guid == pair.second->guid && pair.first->address != pair.second->address;
  });
}

// GPUs have no names of their own, but numbers, and those of switches are their addresses.
DevicePairs pairs_of_kind(const std::string& kind, const Devices& first, const Devices& second,
                          bool are_moved) {
  Unpaired rest;
  for (const Device& one : first) rest.first.push_back(&one);
  for (const Device& one : second) rest.second.push_back(&one);
  DevicePairs pairs;
  // First, since bus numbers that moved up by one lost card may be a subset of the good machine's.
  // The GUIDs of another machine are all different, and pair nothing.
  pair_by(guid_of, true, &rest, &pairs);
  for (const Identity identity : {function_of, named_function}) {
    if (!are_moved || !pairs.empty()) pair_by(identity, false, &rest, &pairs);
  }
  if (kind == kHcaKind && !are_names_mere_numbers(rest)) pair_by(name_of, false, &rest, &pairs);
  // Nothing shows which belong together: alike machines have them in the same order.
  if (pairs.empty() && rest.first.size() == rest.second.size()) {
    for (size_t i = 0; i < first.size(); ++i) pairs.push_back({"", &first[i], &second[i]});
    rest = {};
  }
  for (const Device* one : rest.first) pairs.push_back({"", one, nullptr});
  std::sort(pairs.begin(), pairs.end(),
            [](const auto& a, const auto& b) { return std::less<>()(a.first, b.first); });
  for (const Device* one : rest.second) pairs.push_back({"", nullptr, one});
  for (DevicePair& pair : pairs) pair.kind = kind;
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

DevicePairs pairs_of(const Profile& first, const Profile& second) {
  const auto devices = [](const Profile& profile, const char* kind) -> const Devices& {
    static const Devices kNone;
    const auto found = profile.devices.find(kind);
    return found == profile.devices.end() ? kNone : found->second;
  };
  DevicePairs pairs;
  for (const char* kind : {kGpuKind, kHcaKind, kSwitchKind}) {
    const DevicePairs more =
        pairs_of_kind(kind, devices(first, kind), devices(second, kind), have_moved(pairs));
    pairs.insert(pairs.end(), more.begin(), more.end());
  }
  return pairs;
}

// A switch has no other name than its address.
std::string full_name(const Device& device) {
  return device.name.ends_with(device.address) ? device.name
                                               : device.name + " (" + device.address + ")";
}

// Adds the devices without counterparts. Where both machines have devices of the kind, and none
// belong together, which one is missing is unknown, and their numbers are all that is known.
void compare_presence(const DevicePairs& pairs, Differences* list) {
  for (const char* kind : {kGpuKind, kHcaKind, kSwitchKind}) {
    size_t first = 0, second = 0, both = 0;
    Differences found;
    for (const DevicePair& pair : pairs) {
      if (pair.kind != kind) continue;
      if (pair.first != nullptr) ++first;
      if (pair.second != nullptr) ++second;
      if (pair.first != nullptr && pair.second != nullptr) {
        ++both;
      } else if (pair.first == nullptr) {
        found.push_back({full_name(*pair.second), kPresence, "no", "yes", kind});
      } else {
        found.push_back({full_name(*pair.first), kPresence, "yes", "no", kind});
      }
    }
    if (both == 0 && first > 0 && second > 0) {
      found = {{"", std::string("number of devices: ") + kind, std::to_string(first),
                std::to_string(second), kind}};
    }
    list->insert(list->end(), found.begin(), found.end());
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
  Differences list, presence;
  compare_facts({}, first.machine, second.machine, &list);
  compare_settings(first.settings, second.settings, &list);
  const DevicePairs pairs = pairs_of(first, second);
  compare_presence(pairs, &presence);
  list.insert(list.end(), presence.begin(), presence.end());
  compare_devices(pairs, &Device::properties, &list);
  compare_paths(pairs, &list);
  // One lost HCA changes the rails of many.
  if (presence.empty()) compare_devices(pairs, &Device::choices, &list);
  std::stable_partition(list.begin(), list.end(),
                        [](const Difference& one) { return one.property != kNcclFailure; });
  return list;
}

}  // namespace gdr::tools::doctor
