#include "tools/topo/modes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/common/exit_codes.h"
#include "tools/prediction/rail_agreement.h"
#include "tools/topo/inspect.h"
#include "tools/topo/labels.h"
#include "tools/topo/picture_header.h"
#include "tools/topo/read_file.h"
#include "tools/topo/render.h"
#include "tools/topo/text_table.h"
#include "topology/grouping.h"
#include "topology/grouping_check.h"
#include "topology/sources/nccl_xml_writer.h"

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;
using Document = nlohmann::ordered_json;

struct Node {
  std::string name;  // the host's, or what it was read from; unique in a list
  Result<Inspection> inspection;
};

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Returns "node17" for "captures/node17.xml".
std::string name_of_source(const std::string& source) {
  if (source == "live") return own_host_name().empty() ? "live" : own_host_name();
  fs::path path(source);
  if (path.filename().empty()) path = path.parent_path();
  const std::string stem = path.stem().string();
  return clean_text(stem.empty() ? source : stem);
}

// Appends what distinguishes nodes of one name: their source, then a number.
void make_names_unique(const std::vector<std::string>& sources, std::vector<Node>* nodes) {
  std::map<std::string, int> uses;
  for (const Node& node : *nodes) ++uses[node.name];
  for (size_t i = 0; i < nodes->size(); ++i) {
    if (uses[(*nodes)[i].name] > 1) (*nodes)[i].name += " (" + clean_text(sources[i]) + ")";
  }
  std::map<std::string, int> seen;
  for (Node& node : *nodes) {
    const int number = ++seen[node.name];
    if (number > 1) node.name += " #" + std::to_string(number);
  }
}

// Inspects the host that the options choose, or all of them.
std::vector<Result<Inspection>> inspect_hosts(InspectOptions options, const std::string& source) {
  options.from = source;
  const bool all = options.host == kAllHosts;
  if (all) options.host = "0";
  std::vector<Result<Inspection>> inspections;
  inspections.push_back(inspect(options));
  if (!all || !inspections[0]) return inspections;
  const int hosts = inspections[0]->decision.machine.hosts;
  for (int host = 1; host < hosts; ++host) {
    options.host = std::to_string(host);
    inspections.push_back(inspect(options));
  }
  return inspections;
}

// Inspects the machines of `sources`, each as InspectOptions::from; options.from does not count.
std::vector<Node> read_nodes(const InspectOptions& options,
                             const std::vector<std::string>& sources) {
  std::vector<Node> nodes;
  std::vector<std::string> sources_of_nodes;
  for (const std::string& source : sources) {
    for (Result<Inspection>& inspection : inspect_hosts(options, source)) {
      const std::string host = inspection ? clean_text(inspection->decision.machine.host) : "";
      nodes.push_back({host.empty() ? name_of_source(source) : host, std::move(inspection)});
      sources_of_nodes.push_back(source);
    }
  }
  make_names_unique(sources_of_nodes, &nodes);
  return nodes;
}

int exit_code_of(const Error& error) {
  const bool wrong_value =
      error.code == Code::kInvalidUsage || error.code == Code::kInvalidArgument;
  return wrong_value ? kExitUsage : kExitCouldNotRun;
}

void add_exit_code(int code, Outcome* outcome) {
  outcome->exit_code = std::max(outcome->exit_code, code);
}

// Whether the node's name, "node17 (a/node17.xml)", has the source that the error begins with.
bool names_source(const std::string& node, const std::string& error) {
  const size_t source = node.find(" (");
  return source != std::string::npos && node.ends_with(")") &&
         error.starts_with(node.substr(source + 2, node.size() - source - 3));
}

// `node` is "" where there is only one.
void add_error(std::string node, const Error& error, Outcome* outcome) {
  if (names_source(node, error.text)) node.clear();
  outcome->diagnostics +=
      fmt::format("nccl-gdr: {}{}\n", node.empty() ? "" : node + ": ", error.text);
  add_exit_code(exit_code_of(error), outcome);
}

void add_findings(const std::string& node, const Findings& findings, Outcome* outcome) {
  for (const Finding& finding : findings) {
    const char* kind = finding.severity == Severity::kInfo ? "note" : "warning";
    outcome->diagnostics += fmt::format("{}: {}{}\n", kind, node.empty() ? "" : node + ": ",
                                        clean_text(to_string(finding)));
  }
}

std::string view_text(const Inspection& inspection, View view) {
  const RailDecision& decision = inspection.decision;
  switch (view) {
    case View::kJson:
      return json_text(decision, inspection.not_offered);
    case View::kNcclXml:
      return topology::nccl_xml_text_of(decision.machine);
    case View::kGroupedNcclXml:
      return topology::nccl_xml_text_of(
          topology::group_under_switches(decision.machine, decision.plan));
    case View::kSvg:
      return svg_text(decision, picture_date());
    case View::kMatrix:
      break;
  }
  return matrix_text(decision, inspection.not_offered,
                     origin_text(inspection.settings, kRailMapVariable));
}

// Returns what the user of a file with grouped rails should know.
Findings findings_of_grouping(const RailDecision& decision) {
  const Machine grouped = topology::group_under_switches(decision.machine, decision.plan);
  Findings findings = topology::grouping_findings(decision.machine, grouped);
  const Findings unfollowed =
      topology::unfollowed_rails(grouped, decision.plan, decision.prediction.settings());
  findings.insert(findings.end(), unfollowed.begin(), unfollowed.end());
  return findings;
}

// Returns "400 Gb/s" or, for different speeds of rails, "200-400 Gb/s".
std::string rail_speeds(const RailDecision& decision) {
  int least = 0, most = 0;
  for (const Rail& rail : decision.plan.rails) {
    const int speed = port_of(decision.machine, rail.port).speed_mbps;
    if (!rail.usable || speed == 0) continue;
    least = least == 0 ? speed : std::min(least, speed);
    most = std::max(most, speed);
  }
  if (most == 0) return "-";
  return least == most ? speed_text(most) : fmt::format("{:g}-{}", least / 1e3, speed_text(most));
}

// Returns the class of the longest path between a GPU and its own rail.
std::string farthest_path(const RailDecision& decision) {
  std::optional<PathClass> farthest;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* rail = decision.plan.first_rail_of(gpu);
    if (rail == nullptr) continue;
    const PathClass path = path_between(decision, gpu, static_cast<size_t>(rail->port.hca));
    if (!farthest.has_value() || path > *farthest) farthest = path;
  }
  return farthest ? topology::to_string(*farthest) : "-";
}

size_t direct_gpus(const RailDecision& decision) {
  size_t direct = 0;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* rail = decision.plan.first_rail_of(gpu);
    if (rail == nullptr) continue;
    const auto verdicts = verdicts_between(decision, gpu, static_cast<size_t>(rail->port.hca));
    if (verdicts.receive.direct && verdicts.send.direct) ++direct;
  }
  return direct;
}

std::string part_text(size_t part, size_t whole) {
  return part == whole ? std::to_string(whole) : fmt::format("{} of {}", part, whole);
}

// Returns a line of the table of several machines.
TextRow summary_of(const std::string& node, const Inspection& inspection) {
  const RailDecision& decision = inspection.decision;
  const size_t gpus = decision.machine.gpus.size();
  const auto usable =
      static_cast<size_t>(std::count_if(decision.plan.rails.begin(), decision.plan.rails.end(),
                                        [](const Rail& rail) { return rail.usable; }));
  const std::vector<topology::Disagreement> different = topology::disagreements(decision);
  const bool follows =
      std::all_of(different.begin(), different.end(), [](const auto& one) { return one.as_good; });
  const bool predicted = gpus > 0 && !decision.prediction.devices().empty();
  return {node,
          std::to_string(gpus),
          std::to_string(decision.machine.hcas.size()),
          part_text(usable, decision.plan.rails.size()),
          rail_speeds(decision),
          farthest_path(decision),
          gpus == 0 ? "-" : part_text(direct_gpus(decision), gpus),
          !predicted ? "-" : (follows ? "rails" : "others")};
}

// NCCL finds devices in its file by their addresses, and the text of nvidia-smi has none.
Status check_addresses(const std::string& source, View view) {
  if (source == "live" || (view != View::kNcclXml && view != View::kGroupedNcclXml)) return {};
  const Result<FileFormat> format = file_format_of(source);
  if (!format || *format != FileFormat::kNvidiaSmi) return {};
  return fail(
      Code::kInvalidUsage,
      "--nccl-xml: the text of nvidia-smi has no PCI addresses, by which NCCL finds devices "
      "in its file: run this on the machine, or give --from a file of lstopo or NCCL");
}

}  // namespace

Outcome view_mode(const Request& request, View view, bool with_picture) {
  Outcome outcome;
  InspectOptions options = request.options;
  options.from = request.sources.front();
  if (Status usable = check_addresses(options.from, view); !usable) {
    add_error("", usable.error(), &outcome);
    return outcome;
  }
  Result<Inspection> inspection = inspect(options);
  if (!inspection) {
    add_error("", inspection.error(), &outcome);
    return outcome;
  }
  add_findings("", inspection->decision.findings, &outcome);
  if (view == View::kGroupedNcclXml) {
    add_findings("", findings_of_grouping(inspection->decision), &outcome);
  }
  outcome.results = view_text(*inspection, view);
  if (with_picture) outcome.picture = svg_text(inspection->decision, picture_date());
  return outcome;
}

Outcome fleet_mode(const Request& request, View view) {
  Outcome outcome;
  std::vector<TextRow> summaries = {
      {"node", "GPUs", "HCAs", "rails", "speed", "path", "GPUDirect", "NCCL uses"}};
  for (const Node& node : read_nodes(request.options, request.sources)) {
    if (!node.inspection) {
      add_error(node.name, node.inspection.error(), &outcome);
      continue;
    }
    const RailDecision& decision = node.inspection->decision;
    if (view == View::kJson) {
      add_findings(node.name, decision.findings, &outcome);
      const std::string text = json_text(decision, node.inspection->not_offered);
      outcome.results += Document::parse(text).dump() + "\n";
    } else {
      for (const Finding& finding : decision.findings) {
        const bool shows_less = finding.kind == FindingKind::kTopologySource ||
                                finding.kind == FindingKind::kSeveralHosts;
        if (shows_less) add_findings(node.name, {finding}, &outcome);
      }
      summaries.push_back(summary_of(node.name, *node.inspection));
    }
  }
  if (view != View::kJson && summaries.size() > 1) outcome.results = aligned(summaries, "");
  return outcome;
}

}  // namespace gdr::tools::topo
