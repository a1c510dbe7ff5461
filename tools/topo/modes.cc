#include "tools/topo/modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/common/exit_codes.h"
#include "tools/topo/file_format.h"
#include "tools/topo/inspect.h"
#include "tools/topo/labels.h"
#include "tools/topo/nodes.h"
#include "tools/topo/picture_header.h"
#include "tools/topo/render.h"
#include "tools/topo/reports.h"
#include "topology/grouping.h"
#include "topology/grouping_check.h"
#include "topology/sources/nccl_xml_writer.h"

namespace gdr::tools::topo {
namespace {

using Document = nlohmann::ordered_json;

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

Result<std::string> view_text(const Inspection& inspection, View view) {
  const RailDecision& decision = inspection.decision;
  switch (view) {
    case View::kJson:
      return json_text(decision, inspection.not_offered);
    case View::kDot:
      return dot_text(decision, picture_date());
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
  Result<std::string> text = view_text(*inspection, view);
  if (!text) {
    add_error("", text.error(), &outcome);
    return outcome;
  }
  add_findings("", inspection->decision.findings, &outcome);
  if (view == View::kGroupedNcclXml) {
    add_findings("", findings_of_grouping(inspection->decision), &outcome);
  }
  outcome.results = std::move(*text);
  if (with_picture) outcome.picture = svg_text(inspection->decision, picture_date());
  return outcome;
}

Outcome fleet_mode(const Request& request, View view) {
  Outcome outcome;
  std::vector<Summary> summaries;
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
      summaries.push_back(summary_of(node.name, *node.inspection));
    }
  }
  if (view != View::kJson && !summaries.empty()) outcome.results = summary_table(summaries);
  return outcome;
}

}  // namespace gdr::tools::topo
