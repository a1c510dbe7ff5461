#include "tools/topo/show.h"

#include <fmt/format.h>

#include "tools/common/exit_codes.h"
#include "tools/inspection/inspect.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/read_file.h"
#include "tools/topo/render.h"
#include "topology/grouping.h"
#include "topology/grouping_check.h"
#include "topology/sources/nccl_xml_writer.h"

namespace gdr::tools::topo {
namespace {

int exit_code_of(const Error& error) {
  const bool wrong_value =
      error.code == Code::kInvalidUsage || error.code == Code::kInvalidArgument;
  return wrong_value ? kExitUsage : kExitCouldNotRun;
}

void add_error(const Error& error, Outcome* outcome) {
  outcome->diagnostics += fmt::format("nccl-gdr: {}\n", error.text);
  outcome->exit_code = exit_code_of(error);
}

void add_findings(const Findings& findings, Outcome* outcome) {
  for (const Finding& finding : findings) {
    const char* kind = finding.severity == Severity::kInfo ? "note" : "warning";
    outcome->diagnostics += fmt::format("{}: {}\n", kind, clean_text(to_string(finding)));
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
    case View::kMatrix:
      break;
  }
  const bool has_map = inspection.settings.contains(kRailMapVariable);
  return matrix_text(decision, inspection.not_offered,
                     has_map ? setting_text(inspection.settings, kRailMapVariable) : "");
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
      "in its file: run nccl-gdr on the machine, or give --from a file of lstopo or NCCL");
}

}  // namespace

Outcome show(const InspectOptions& options, View view) {
  Outcome outcome;
  if (Status usable = check_addresses(options.from, view); !usable) {
    add_error(usable.error(), &outcome);
    return outcome;
  }
  Result<Inspection> inspection = inspect(options);
  if (!inspection) {
    add_error(inspection.error(), &outcome);
    return outcome;
  }
  add_findings(inspection->decision.findings, &outcome);
  if (inspection->settings.count(kDisableVariable) > 0) {
    outcome.diagnostics += "warning: NCCL_IB_DISABLE is set: NCCL and the plugin use no HCA\n";
  }
  if (view == View::kGroupedNcclXml) {
    add_findings(findings_of_grouping(inspection->decision), &outcome);
  }
  outcome.results = view_text(*inspection, view);
  const Machine& machine = inspection->decision.machine;
  if (machine.gpus.empty() && machine.hcas.empty() && inspection->not_offered.empty()) {
    outcome.exit_code = kExitCouldNotRun;
  }
  return outcome;
}

}  // namespace gdr::tools::topo
