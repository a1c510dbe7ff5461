#include "tools/doctor/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/topo/labels.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;

// Without the topology of one of two machines, neither its GPUs and switches nor the position of
// its HCAs are known, nor whether it shows all of them.
Profile without_topology(Profile profile) {
  profile.gpus.clear();
  profile.switches.clear();
  profile.switches_known = false;
  profile.gpu_gpu.clear();
  profile.gpu_hca.clear();
  for (DeviceProfile& hca : profile.hcas) hca.address.clear();
  return profile;
}

std::vector<Difference> differences_of(const Profile& node, const Profile& other) {
  if (node.has_topology == other.has_topology) return compare_profiles(node, other);
  std::vector<Difference> list = compare_profiles(without_topology(node), without_topology(other));
  std::erase_if(list, [](const Difference& one) { return one.kind != Difference::Kind::kValue; });
  return list;
}

// Machines that are alike, by their positions. Each is compared with the first of each group, so
// that a large fleet with few groups takes little time.
std::vector<std::vector<size_t>> alike_nodes(const std::vector<Profile>& nodes) {
  std::vector<std::vector<size_t>> groups;
  const auto add_those = [&](bool with_topology) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].has_topology != with_topology) continue;
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& members) {
        return differences_of(nodes[i], nodes[members[0]]).empty();
      });
      if (group == groups.end()) {
        groups.push_back({i});
      } else {
        group->push_back(i);
      }
    }
    // The largest first, and in the order of the machines where they are as large.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  };
  // A machine without a topology may be like several groups: it belongs to the largest of them.
  add_those(true);
  add_those(false);
  return groups;
}

void add_node(const Profile& node, const Profile& reference, Comparison* comparison) {
  std::vector<Difference> list = differences_of(node, reference);
  if (list.empty()) {
    comparison->alike.push_back(node.name);
  } else {
    comparison->deviations.push_back({node.name, std::move(list)});
  }
}

std::string node_text(const Comparison& comparison, const Deviation& deviation) {
  std::string text;
  for (const Difference& one : grouped(deviation.differences)) {
    text += deviation.node + ": " +
            (comparison.is_reference_right
                 ? expecting_text(one)
                 : comparing_text(one, deviation.node, comparison.reference)) +
            "\n";
  }
  return text;
}

Json json_of(const Difference& difference) {
  Json json = {{"subject", difference.subject}};
  if (difference.kind == Difference::Kind::kValue) {
    json["property"] = difference.property;
    json["actual"] = difference.first;
    json["expected"] = difference.second;
    return json;
  }
  const bool is_unexpected = difference.kind == Difference::Kind::kOnlyInFirst;
  json["property"] = "present";
  json["actual"] = is_unexpected ? "yes" : "no";
  json["expected"] = is_unexpected ? "no" : "yes";
  return json;
}

Json json_of(const Deviation& deviation) {
  Json differences = Json::array();
  for (const Difference& one : deviation.differences) differences.push_back(json_of(one));
  return {{"node", deviation.node}, {"differences", differences}};
}

}  // namespace

Comparison compare_fleet(const std::vector<Profile>& nodes) {
  const std::vector<std::vector<size_t>> groups = alike_nodes(nodes);
  const Profile& reference = nodes[groups[0][0]];
  Comparison comparison;
  comparison.nodes = nodes.size();
  comparison.reference = reference.name;
  comparison.is_reference_right = groups.size() < 2 || groups[0].size() > groups[1].size();
  for (const Profile& node : nodes) add_node(node, reference, &comparison);
  return comparison;
}

Comparison compare_with_good(const Profile& node, const Profile& good) {
  Comparison comparison;
  comparison.nodes = 1;
  comparison.reference = good.name;
  add_node(node, good, &comparison);
  return comparison;
}

Result<Profile> read_good(const std::string& file) {
  Result<std::vector<Profile>> profiles = read_fingerprints({file});
  if (!profiles) return forward_error(profiles);
  Profile& good = profiles->front();
  good.name = topo::clean_text(file);
  if (!good.gpus.empty() && !good.hcas.empty()) return std::move(good);
  return fail(Code::kInvalidArgument,
              fmt::format("{}: it describes a machine without {}, which is not one to compare "
                          "others with. Fix: make it on a machine that works",
                          good.name, good.gpus.empty() ? "GPUs" : "HCAs"));
}

std::string to_text(const Comparison& comparison) {
  if (comparison.deviations.empty()) {
    return comparison.nodes == 1
               ? fmt::format("{} is like {}\n", comparison.alike[0], comparison.reference)
               : fmt::format("{} nodes are alike\n", comparison.nodes);
  }
  std::string text;
  std::vector<std::string> names;
  for (const Deviation& one : comparison.deviations) {
    text += node_text(comparison, one);
    names.push_back(one.node);
  }
  const std::string differing = topo::short_list(names);
  const char* differs = names.size() == 1 ? "differs" : "differ";
  if (comparison.nodes == 1) {
    return text + fmt::format("{} differs from {}\n", differing, comparison.reference);
  }
  if (comparison.is_reference_right) {
    return text + fmt::format("{} of {} nodes {}: {}\n", names.size(), comparison.nodes, differs,
                              differing);
  }
  return text + fmt::format(
                    "{} {} from {}; as many nodes are of one kind as of another, so that "
                    "the right kind is unknown\n",
                    differing, differs, comparison.reference);
}

std::string to_json(const Comparison& comparison) {
  Json deviations = Json::array();
  for (const Deviation& one : comparison.deviations) deviations.push_back(json_of(one));
  const Json json = {{"format", "nccl-gdr-comparison"},
                     {"version", 1},
                     {"nodes", comparison.nodes},
                     {"reference", comparison.reference},
                     {"majority", comparison.is_reference_right},
                     {"alike", comparison.alike},
                     {"different", deviations}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::doctor
