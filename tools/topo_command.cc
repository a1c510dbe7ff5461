#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/common/output.h"
#include "tools/prediction/release.h"
#include "tools/topo/show.h"

namespace gdr::tools {
namespace {

using topo::Outcome;
using topo::View;
using topology::nccl::kNewestRelease;
using topology::nccl::kOldestRelease;

struct TopoCommand {
  std::vector<std::string> sources = {"live"};
  topo::InspectOptions options;  // but for `from`
  bool json = false;
  bool nccl_xml = false;
  bool grouped = false;
};

// Stops where options contradict each other.
void check_conflicts(const TopoCommand& command) {
  if (command.sources.size() > 1) {
    stop(kExitUsage,
         "--from takes one machine. For several: "
         "for FILE in *.xml; do nccl-gdr topo --from \"$FILE\"; done");
  }
  if (command.options.host.has_value() && command.sources[0] == "live") {
    stop(kExitUsage, "--host chooses from the hosts of a file: name the file by --from");
  }
}

View view_of(const TopoCommand& command) {
  if (command.json) return View::kJson;
  if (command.nccl_xml) return command.grouped ? View::kGroupedNcclXml : View::kNcclXml;
  return View::kMatrix;
}

void run(const TopoCommand& command) {
  check_conflicts(command);
  topo::InspectOptions options = command.options;
  options.from = command.sources[0];
  const Outcome outcome = topo::show(options, view_of(command));
  std::fputs(outcome.diagnostics.c_str(), stderr);
  print_now(outcome.results);
  if (outcome.exit_code != kExitOk) throw CLI::RuntimeError(outcome.exit_code);
}

void add_input(CLI::App* sub, TopoCommand* command) {
  sub->add_option(
         "--from", command->sources,
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
