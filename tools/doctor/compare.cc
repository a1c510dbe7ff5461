#include "tools/doctor/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/topo/reports.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;

// A variable that a node lacks is unset there, which is known.
void add_unset_settings(std::vector<FleetNode>* nodes) {
  std::set<std::string> all;
  for (const FleetNode& one : *nodes) all.insert(one.settings.begin(), one.settings.end());
  for (FleetNode& one : *nodes) {
    for (const std::string& name : all) {
      if (one.settings.contains(name)) continue;
      one.profile.properties.push_back({name, "unset"});
    }
  }
}

// Without the topology of one of two nodes, neither its GPUs and switches nor the position of its
// HCAs are known.
topo::Profile without_topology(topo::Profile profile) {
  profile.gpus.clear();
  profile.switches.clear();
  profile.switches_known = false;
  profile.gpu_gpu.clear();
  profile.gpu_hca.clear();
  for (topo::DeviceProfile& hca : profile.hcas) hca.address.clear();
  return profile;
}

// The differences of what is known of both.
std::vector<topo::Difference> differences_of(const FleetNode& node, const FleetNode& other) {
  const bool is_whole = node.has_topology == other.has_topology;
  std::vector<topo::Difference> list =
      is_whole ? topo::compare_profiles(node.profile, other.profile, {topo::Aspect::kShape})
               : topo::compare_profiles(without_topology(node.profile),
                                        without_topology(other.profile), {topo::Aspect::kShape});
  topo::drop_unknown_in_second(&list);
  std::erase_if(list, [](const topo::Difference& difference) {
    return difference.kind == topo::Difference::Kind::kValue && !difference.first.has_value();
  });
  return list;
}

// Nodes that are alike, by their positions. Each node is compared with the first of each group, so
// that a large fleet with few groups takes little time.
std::vector<std::vector<size_t>> alike_nodes(const std::vector<FleetNode>& nodes) {
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
    // The largest first, and in the order of the nodes where they are as large.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  };
  // A node without a topology may be like several groups: it belongs to the largest of them.
  add_those(true);
  add_those(false);
  return groups;
}

std::string node_text(const FleetComparison& comparison, const Deviation& deviation) {
  std::string text;
  for (const topo::Difference& one : topo::grouped(deviation.differences)) {
    text +=
        deviation.node + ": " +
        (comparison.is_majority ? topo::expecting_text(one)
                                : topo::comparing_text(one, deviation.node, comparison.alike[0])) +
        "\n";
  }
  return text;
}

}  // namespace

FleetComparison compare_fleet(std::vector<FleetNode> nodes) {
  add_unset_settings(&nodes);
  const std::vector<std::vector<size_t>> groups = alike_nodes(nodes);
  FleetComparison comparison;
  comparison.nodes = nodes.size();
  comparison.is_majority = groups.size() < 2 || groups[0].size() > groups[1].size();
  for (const size_t one : groups[0]) comparison.alike.push_back(nodes[one].name);
  const FleetNode& reference = nodes[groups[0][0]];
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<topo::Difference> list = differences_of(nodes[i], reference);
    if (!list.empty()) comparison.deviations.push_back({nodes[i].name, std::move(list)});
  }
  return comparison;
}

std::string to_text(const FleetComparison& comparison) {
  if (comparison.deviations.empty()) {
    return fmt::format("{} nodes are alike\n", comparison.nodes);
  }
  std::string text;
  for (const Deviation& one : comparison.deviations) text += node_text(comparison, one);
  std::vector<std::string> names;
  for (const Deviation& one : comparison.deviations) names.push_back(one.node);
  const std::string differing = topo::short_list(names);
  const char* differs = names.size() == 1 ? "differs" : "differ";
  if (comparison.is_majority) {
    return text + fmt::format("{} of {} nodes {}: {}\n", names.size(), comparison.nodes, differs,
                              differing);
  }
  return text + fmt::format(
                    "{} {} from {}; as many nodes are of one kind as of another, so that "
                    "none is known to be right\n",
                    differing, differs, comparison.alike[0]);
}

std::string to_json(const FleetComparison& comparison) {
  Json deviations = Json::array();
  for (const Deviation& one : comparison.deviations) {
    deviations.push_back(topo::expect_json(one.node, one.differences));
  }
  const Json json = {{"format", "nccl-gdr-comparison"}, {"version", 1},
                     {"nodes", comparison.nodes},       {"majority", comparison.is_majority},
                     {"alike", comparison.alike},       {"different", deviations}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::doctor
