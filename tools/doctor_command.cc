#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/report.h"
#include "tools/doctor/wrap.h"

namespace gdr::tools {
namespace {

struct DoctorCommand {
  std::vector<std::string> names;
  std::string root = "/";
  bool all = false;
  bool json = false;
  bool prometheus = false;
  bool fix_script = false;
  bool list = false;
};

// Returns the checks of --check, in the order of all_checks(); all of them where none is named.
std::vector<doctor::Check> chosen(const std::vector<std::string>& names) {
  const std::vector<doctor::Check>& all = doctor::all_checks();
  if (names.empty()) return all;
  std::vector<doctor::Check> checks;
  for (const doctor::Check& check : all) {
    if (std::find(names.begin(), names.end(), check.name) != names.end()) checks.push_back(check);
  }
  for (const std::string& name : names) {
    const auto is_it = [&](const doctor::Check& check) { return name == check.name; };
    if (std::none_of(all.begin(), all.end(), is_it)) {
      stop(kExitUsage, "there is no check " + name + ". Fix: nccl-gdr doctor --list shows them");
    }
  }
  return checks;
}

void print_list(const std::vector<doctor::Check>& checks) {
  for (const doctor::Check& check : checks) {
    fmt::print("{}", doctor::wrapped(fmt::format("{:<24}", check.name), check.looks_at));
  }
}

std::string text_of(const DoctorCommand& command, const doctor::Report& report) {
  if (command.json) return doctor::to_json(report);
  if (command.prometheus) return doctor::to_prometheus(report);
  if (command.fix_script) return doctor::to_fix_script(report);
  return doctor::to_text(report, command.all || !command.names.empty());
}

void run(const DoctorCommand& command) {
  const std::vector<doctor::Check> checks = chosen(command.names);
  if (command.list) return print_list(checks);
  Result<doctor::Host> host = doctor::read_host(command.root);
  if (!host) stop(kExitCouldNotRun, host.error().text);
  const doctor::Report report = doctor::run_checks(checks, *host);
  fmt::print("{}", text_of(command, report));
  if (const int code = doctor::exit_code_of(report); code != kExitOk) {
    throw CLI::RuntimeError(code);
  }
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  CLI::App* sub = app.add_subcommand(
      "doctor", "Find out why GPUDirect RDMA is not working or slow, and what to do about it");
  sub->add_option("--check", command->names, "Run only these checks, and print all that they saw")
      ->delimiter(',');
  sub->add_option("--root", command->root,
                  "Look at the /proc, /sys, /dev and /etc in this folder, copied from a machine")
      ->capture_default_str();
  CLI::Option_group* forms = sub->add_option_group("Output", "At most one of:");
  forms->add_flag("--all", command->all, "Print every check, not only what is wrong");
  forms->add_flag("--list", command->list, "Print the names of the checks and what they look at");
  forms->add_flag("--json", command->json, "Print JSON (docs/doctor.schema.json)");
  forms->add_flag("--prometheus", command->prometheus, "Print metrics for node_exporter");
  forms->add_flag("--fix-script", command->fix_script,
                  "Print a shell script with the fixes and their undo; nothing is run");
  forms->require_option(0, 1);
  sub->callback([command] { run(*command); });
}

}  // namespace gdr::tools
