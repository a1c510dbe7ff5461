#include "tools/doctor/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "tools/topo/labels.h"
#include "tools/topo/text_table.h"

namespace gdr::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;
using Nodes = std::vector<size_t>;  // positions

// Each machine is compared with the first of each group, so that a large fleet with few groups
// takes little time. The largest group comes first, and of two as large the one with the earlier
// machine.
std::vector<Nodes> alike_nodes(const std::vector<Profile>& nodes) {
  std::vector<Nodes> groups;
  // A machine without a topology may be like several groups: it belongs to the largest of them.
  for (const bool with_topology : {true, false}) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].has_topology != with_topology) continue;
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const Nodes& members) {
        return compare_profiles(nodes[i], nodes[members[0]]).empty();
      });
      if (group == groups.end()) {
        groups.push_back({i});
      } else {
        group->push_back(i);
      }
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Nodes& a, const Nodes& b) { return a.size() > b.size(); });
  }
  return groups;
}

void add_node(const Profile& node, const Profile& reference, Comparison* comparison) {
  std::vector<Difference> list = compare_profiles(node, reference);
  if (list.empty()) {
    comparison->alike.push_back(node.host);
  } else {
    comparison->deviations.push_back({node.host, std::move(list)});
  }
}

// The differences that are the same for several devices of one kind, as one that names the first of
// them: "GPU0, GPU1, GPU2 and 5 more".
std::vector<Difference> grouped(const std::vector<Difference>& list) {
  std::vector<Difference> groups;
  std::vector<std::vector<std::string>> subjects;
  for (const Difference& one : list) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Difference& other) {
      return std::tie(one.kind, one.property, one.first, one.second) ==
             std::tie(other.kind, other.property, other.first, other.second);
    });
    const auto position = static_cast<size_t>(group - groups.begin());
    if (group == groups.end()) {
      groups.push_back(one);
      subjects.emplace_back();
    }
    subjects[position].push_back(one.subject);
  }
  for (size_t i = 0; i < groups.size(); ++i) groups[i].subject = topo::short_list(subjects[i]);
  return groups;
}

// "mlx5_3: port 1 state: down, expected active"; without an expected value, the names of both
// machines: "mlx5_3: port 1 state: down in node16, active in node17".
std::string difference_text(const Difference& one, const std::string& node,
                            const Comparison& comparison) {
  const bool is_right = comparison.is_reference_right;
  const std::string subject = one.subject.empty() ? "" : one.subject + ": ";
  if (one.property == kPresence) {
    const bool is_here = one.first == "yes";
    if (is_right) return subject + (is_here ? "unexpected" : "missing");
    return subject + "only in " + (is_here ? node : comparison.reference);
  }
  const std::string text = subject + one.property + ": " + one.first;
  if (is_right) return text + ", expected " + one.second;
  return text + " in " + node + ", " + one.second + " in " + comparison.reference;
}

std::string node_text(const Comparison& comparison, const Deviation& deviation) {
  std::string text;
  for (const Difference& one : grouped(deviation.differences)) {
    const std::string line = difference_text(one, deviation.node, comparison);
    text += topo::clean_text(deviation.node + ": " + line) + "\n";
  }
  return text;
}

Json json_of(const Deviation& deviation) {
  Json differences = Json::array();
  for (const Difference& one : deviation.differences) {
    differences.push_back({{"subject", one.subject},
                           {"property", one.property},
                           {"actual", one.first},
                           {"expected", one.second}});
  }
  return {{"node", deviation.node}, {"differences", differences}};
}

std::string last_line(const Comparison& comparison) {
  const std::string& reference = comparison.reference;
  std::vector<std::string> names;
  for (const Deviation& one : comparison.deviations) names.push_back(one.node);
  const std::string differing = topo::short_list(names);
  if (comparison.nodes == 1) {
    return names.empty() ? fmt::format("{} is like {}\n", comparison.alike[0], reference)
                         : fmt::format("{} differs from {}\n", differing, reference);
  }
  if (names.empty()) return fmt::format("{} nodes are alike\n", comparison.nodes);
  const char* differs = names.size() == 1 ? "differs" : "differ";
  if (comparison.is_reference_right) {
    return fmt::format("{} of {} nodes {}: {}\n", names.size(), comparison.nodes, differs,
                       differing);
  }
  return fmt::format(
      "{} {} from {}; as many nodes are of one kind as of another, so that the right kind is "
      "unknown\n",
      differing, differs, reference);
}

}  // namespace

Comparison compare_fleet(const std::vector<Profile>& nodes) {
  const std::vector<Nodes> groups = alike_nodes(nodes);
  const Profile& reference = nodes[groups[0][0]];
  Comparison comparison{.nodes = nodes.size(), .reference = reference.host};
  comparison.is_reference_right = groups.size() < 2 || groups[0].size() > groups[1].size();
  for (const Profile& node : nodes) add_node(node, reference, &comparison);
  return comparison;
}

Comparison compare_with_good(const Profile& node, const Profile& good) {
  Comparison comparison{.nodes = 1, .reference = good.host};
  add_node(node, good, &comparison);
  return comparison;
}

std::string to_text(const Comparison& comparison) {
  std::string text;
  for (const Deviation& one : comparison.deviations) text += node_text(comparison, one);
  return text + last_line(comparison);
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
