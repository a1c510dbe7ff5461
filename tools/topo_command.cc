#include <fmt/format.h>

#include <cerrno>
#include <memory>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/topo/inspect.h"
#include "tools/topo/picture_header.h"
#include "tools/topo/render.h"
#include "topology/grouping.h"
#include "topology/sources/nccl_xml_writer.h"

namespace gdr::tools {
namespace {

struct TopoCommand {
  topo::InspectOptions options;
  bool json = false;
  bool dot = false;
  bool nccl_xml = false;
  bool grouped = false;
  std::string svg;

  bool prints_other_than_matrix() const { return json || dot || nccl_xml; }
};

[[noreturn]] void stop(int code, const std::string& text) {
  fmt::print(stderr, "nccl-gdr: {}\n", text);
  throw CLI::RuntimeError(code);
}

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};

Status write_all(std::FILE* file, const std::string& name, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0) {
    return {};
  }
  return fail_errno(Code::kSystem, "cannot write " + name, errno);
}

Status write_file(const std::string& name, const std::string& text) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(name.c_str(), "w"));
  if (file == nullptr) return fail_errno(Code::kSystem, "cannot write " + name, errno);
  return write_all(file.get(), name, text);
}

std::string chosen_text(const TopoCommand& command, const topo::Inspection& inspection) {
  const topology::RailDecision& decision = inspection.decision;
  if (command.json) return topo::json_text(decision, inspection.not_offered);
  if (command.dot) return topo::dot_text(decision, topo::picture_date());
  if (command.nccl_xml && command.grouped) {
    return topology::nccl_xml_text_of(
        topology::group_under_switches(decision.machine, decision.plan));
  }
  if (command.nccl_xml) return topology::nccl_xml_text_of(decision.machine);
  return command.svg == "-" ? topo::svg_text(decision, topo::picture_date())
                            : topo::matrix_text(decision, inspection.not_offered);
}

Status print(const TopoCommand& command, const topo::Inspection& inspection) {
  if (!command.svg.empty() && command.svg != "-") {
    Status written =
        write_file(command.svg, topo::svg_text(inspection.decision, topo::picture_date()));
    if (!written) return written;
  }
  return write_all(stdout, "to stdout", chosen_text(command, inspection));
}

void run(const TopoCommand& command) {
  if (command.svg == "-" && command.prints_other_than_matrix()) {
    stop(kExitUsage,
         "--svg - prints only the picture: give --svg a file, or leave out the other format");
  }
  Result<topo::Inspection> inspection = topo::inspect(command.options);
  if (!inspection) {
    bool wrong_value = inspection.error().code == Code::kInvalidUsage ||
                       inspection.error().code == Code::kInvalidArgument;
    stop(wrong_value ? kExitUsage : kExitCouldNotRun, inspection.error().text);
  }
  for (const Finding& finding : inspection->decision.findings) {
    const char* kind = finding.severity == Severity::kInfo ? "note" : "warning";
    fmt::print(stderr, "{}: {}\n", kind, to_string(finding));
  }
  if (Status printed = print(command, *inspection); !printed) {
    stop(kExitCouldNotRun, printed.error().text);
  }
}

void add_what_if(CLI::App* sub, const char* flag, std::optional<std::string>* value,
                 const std::string& help) {
  sub->add_option(flag, *value, help)->group("What if");
}

}  // namespace

void add_topo_command(CLI::App& app) {
  auto command = std::make_shared<TopoCommand>();
  topo::InspectOptions& o = command->options;
  CLI::App* sub = app.add_subcommand(
      "topo", "Show GPUs, HCAs, the paths between them, rails, and where GPUDirect is possible");
  sub->add_option("--from", o.from,
                  "live: this machine; otherwise a file (XML of hwloc or NCCL), or a folder that "
                  "hwloc-gather-topology --io gathered, of any machine")
      ->capture_default_str();
  CLI::Option* json = sub->add_flag("--json", command->json, "Print JSON");
  CLI::Option* dot = sub->add_flag("--dot", command->dot, "Print a graph for Graphviz");
  CLI::Option* xml =
      sub->add_flag("--nccl-xml", command->nccl_xml, "Print a file for NCCL_TOPO_FILE");
  json->excludes(dot)->excludes(xml);
  dot->excludes(xml);
  sub->add_flag("--grouped", command->grouped,
                "With --nccl-xml: put each GPU and the HCAs of its rails under one switch")
      ->needs(xml);
  sub->add_option("--svg", command->svg, "Write a picture to this file; -: to stdout only");
  add_what_if(sub, "--gdr-level", &o.gdr_level, "In place of NCCL_NET_GDR_LEVEL: PIX, PXB, ...");
  add_what_if(sub, "--hca", &o.hca, "In place of NCCL_IB_HCA, in its grammar");
  add_what_if(sub, "--rail-map", &o.rail_map,
              "In place of GDR_NCCL_RAIL_MAP: gpu=hca[:port],...;... or a file with it");
  sub->callback([command] { run(*command); });
}

}  // namespace gdr::tools
