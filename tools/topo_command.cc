#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/common/output.h"
#include "tools/inspection/inspection.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/read_file.h"
#include "tools/prediction/rail_agreement.h"
#include "tools/prediction/settings.h"
#include "tools/topo/render.h"
#include "topology/grouping.h"
#include "topology/grouping_check.h"
#include "topology/sources/nccl_xml_writer.h"

namespace gdr::tools {
namespace {

using topology::nccl::kNewestRelease;
using topology::nccl::kOldestRelease;

struct TopoCommand {
  topo::InspectOptions options;
  bool json = false;
  bool nccl_xml = false;
  bool grouped = false;
};

// Stops where options contradict each other.
void check_conflicts(const TopoCommand& command) {
  if (command.options.host.has_value() && command.options.from == "live") {
    stop(kExitUsage, "--host chooses from the hosts of a file: name the file by --from");
  }
}

void print_findings(const Findings& findings) {
  for (const Finding& finding : findings) {
    const char* kind = finding.severity == Severity::kInfo ? "note" : "warning";
    std::fputs(fmt::format("{}: {}\n", kind, topo::clean_text(to_string(finding))).c_str(), stderr);
  }
}

// What the user of a file with grouped rails should know.
void print_findings_of_grouping(const topo::RailDecision& decision) {
  topo::RailDecision grouped = decision;
  grouped.machine = topology::group_under_switches(decision.machine, decision.plan);
  print_findings(topology::grouping_findings(decision.machine, grouped.machine));
  grouped.prediction =
      topology::predict(grouped.machine, grouped.plan, decision.prediction.settings());
  const std::vector<topology::Disagreement> different = topology::disagreements(grouped);
  for (const std::string& one : topology::sentences(grouped.machine, different)) {
    std::fputs(("warning: even with the file, " + topo::clean_text(one) + "\n").c_str(), stderr);
  }
}

// NCCL finds devices in its file by their addresses, and the text of nvidia-smi has none.
void check_addresses(const TopoCommand& command) {
  if (command.options.from == "live" || !command.nccl_xml) return;
  const Result<topo::FileFormat> format = topo::file_format_of(command.options.from);
  if (!format || *format != topo::FileFormat::kNvidiaSmi) return;
  stop(kExitUsage,
       "--nccl-xml: the text of nvidia-smi has no PCI addresses, by which NCCL finds devices "
       "in its file: run nccl-gdr on the machine, or give --from a file of lstopo or NCCL");
}

std::string text_of(const TopoCommand& command, const topo::Inspection& inspection) {
  const topo::RailDecision& decision = inspection.decision;
  if (command.json) return topo::json_text(decision, inspection.not_offered);
  if (command.nccl_xml) {
    return topology::nccl_xml_text_of(
        command.grouped ? topology::group_under_switches(decision.machine, decision.plan)
                        : decision.machine);
  }
  const bool has_map = inspection.settings.contains(topo::kRailMapVariable);
  return topo::matrix_text(
      decision, inspection.not_offered,
      has_map ? setting_text(inspection.settings, topo::kRailMapVariable) : "");
}

void run(const TopoCommand& command) {
  check_conflicts(command);
  check_addresses(command);
  const Result<topo::Inspection> inspection = topo::inspect(command.options);
  if (!inspection) stop(inspection.error());
  print_findings(inspection->decision.findings);
  if (inspection->settings.contains(topo::kDisableVariable)) {
    std::fputs("warning: NCCL_IB_DISABLE is set: NCCL and the plugin use no HCA\n", stderr);
  }
  if (command.grouped) print_findings_of_grouping(inspection->decision);
  print_now(text_of(command, *inspection));
  const topo::Machine& machine = inspection->decision.machine;
  if (machine.gpus.empty() && machine.hcas.empty() && inspection->not_offered.empty()) {
    throw CLI::RuntimeError(kExitCouldNotRun);
  }
}

void add_input(CLI::App* sub, TopoCommand* command) {
  sub->add_option(
         "--from", command->options.from,
         "live: this machine; otherwise a file of any machine (XML of hwloc or NCCL, or the text "
         "of `nvidia-smi topo -m`), or a folder that hwloc-gather-topology --io gathered")
      ->capture_default_str()
      ->group("Input");
  sub->add_option("--host", command->options.host,
                  "The host of a file that describes several: a number from 0, its name or hash")
      ->group("Input");
}

void add_output(CLI::App* sub, TopoCommand* command) {
  const char* group = "Output (in place of the matrix)";
  CLI::Option* json = sub->add_flag("--json", command->json, "Print JSON")->group(group);
  CLI::Option* xml =
      sub->add_flag("--nccl-xml", command->nccl_xml, "Print a file for NCCL_TOPO_FILE")
          ->group(group)
          ->excludes(json);
  sub->add_flag("--grouped", command->grouped,
                "With --nccl-xml: put each GPU and the HCAs of its rails under one switch")
      ->needs(xml)
      ->group(group);
}

}  // namespace

void add_topo_command(CLI::App& app) {
  auto command = std::make_shared<TopoCommand>();
  CLI::App* sub = app.add_subcommand(
      "topo", "Show GPUs, HCAs, the paths between them, rails, and where GPUDirect is possible");
  add_footer(sub, "nccl-gdr topo --from node17.xml", usual_statuses(""));
  add_input(sub, command.get());
  add_output(sub, command.get());
  sub->add_option(
         "--nccl-version", command->options.nccl_version,
         fmt::format("The release whose rules count, from {}.{} to {}: 2.28.9, 2.28; "
                     "default: the newest known",
                     kOldestRelease.major, kOldestRelease.minor, kNewestRelease.to_string()))
      ->group("What if");
  sub->callback([command] { run(*command); });
}

}  // namespace gdr::tools
