#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/config/values.h"
#include "tools/commands.h"
#include "tools/common/output.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/host.h"
#include "tools/doctor/report/profile.h"
#include "tools/doctor/report/report.h"
#include "tools/inspection/inspection.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools {
namespace {

struct DoctorCommand {
  std::vector<std::string> names;
  std::string root = "/";
  std::optional<std::string> file;  // with the topology of a machine, in place of a root
  topo::InspectOptions options;
  bool all = false;
  bool json = false;
  bool prometheus = false;
  bool list = false;
  bool fingerprint = false;
  std::optional<std::string> good;   // the file of a good machine
  std::optional<std::string> since;  // an earlier report of this machine
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
      stop(kExitUsage, "there is no check " + config::quoted(name) +
                           ". Fix: nccl-gdr doctor --list shows them");
    }
  }
  return checks;
}

void print_list(const std::vector<doctor::Check>& checks) {
  for (const doctor::Check& check : checks) {
    fmt::print("{}", topo::wrapped(fmt::format("{:<24}", check.name), check.looks_at));
  }
}

std::string text_of(const DoctorCommand& command, const doctor::Report& report) {
  if (command.json) return doctor::to_json(report);
  if (command.prometheus) return doctor::to_prometheus(report);
  return doctor::to_text(report, command.all || !command.names.empty());
}

void end_with(int code) {
  if (code != kExitOk) throw CLI::RuntimeError(code);
}

// Returns why a machine cannot be what others are compared with; "" where it can.
std::string why_no_reference(const doctor::Profile& profile) {
  const std::string lacking = doctor::lacking_in(profile);
  return lacking.empty() ? "" : "a machine without " + lacking + "s cannot be a reference";
}

doctor::Profile good_machine(const std::string& file) {
  Result<doctor::Profile> good = doctor::read_fingerprint(file);
  if (!good) stop(kExitUsage, good.error().text);
  good->host = topo::clean_text(file);
  if (const std::string error = why_no_reference(*good); !error.empty()) {
    stop(kExitUsage, good->host + ": " + error + ". Fix: make the file on a machine with " +
                         doctor::lacking_in(*good) + "s");
  }
  return std::move(*good);
}

void print_fingerprint(const doctor::Host& host) {
  const doctor::Profile profile = doctor::profile_of(host);
  fmt::print("{}", to_json(profile));
  const std::string error = why_no_reference(profile);
  if (!error.empty())
    std::fputs(("note: --expect refuses this fingerprint: " + error + "\n").c_str(), stderr);
}

doctor::Host host_of(const DoctorCommand& command) {
  if (!command.file.has_value()) {
    Result<doctor::Host> host = doctor::read_host(command.root);
    if (!host) stop(host.error());
    return std::move(*host);
  }
  topo::InspectOptions options = command.options;
  options.from = *command.file;
  Result<doctor::Host> host = doctor::read_host_of_file(options);
  if (!host) stop(host.error());
  return std::move(*host);
}

void set_earlier(const DoctorCommand& command, const std::vector<doctor::Check>& checks,
                 doctor::Host* host) {
  if (command.since) {
    auto earlier = doctor::read_earlier_counters(*command.since, host->counters);
    if (!earlier) stop(kExitUsage, earlier.error().text);
    host->earlier = std::move(*earlier);
    return;
  }
  const bool are_judged = std::any_of(checks.begin(), checks.end(), [](const auto& check) {
    return check.name == std::string_view("error-counters");
  });
  if (are_judged) doctor::watch_counters(host);
}

void run(const DoctorCommand& command) {
  const std::vector<doctor::Check> checks = chosen(command.names);
  if (command.list) return print_list(checks);
  std::optional<doctor::Profile> good;
  if (command.good) good = good_machine(*command.good);
  doctor::Host host = host_of(command);
  host.good = std::move(good);
  if (command.fingerprint) return print_fingerprint(host);
  set_earlier(command, checks, &host);
  const doctor::Report report = doctor::run_checks(checks, host);
  fmt::print("{}", text_of(command, report));
  end_with(doctor::exit_code_of(report));
}

// Adds --check and the forms of output, and returns --fingerprint.
CLI::Option* add_forms(DoctorCommand* command, CLI::App* sub) {
  CLI::Option* check =
      sub->add_option("--check", command->names, "Run only these checks, and print all they saw")
          ->delimiter(',');
  CLI::Option_group* forms = sub->add_option_group("Output (one of)");
  forms->require_option(0, 1);
  forms->add_flag("--json", command->json, "Print JSON (docs/doctor.md)");
  forms->add_flag("--all", command->all, "Print every check, not only what is wrong");
  forms->add_flag("--list", command->list, "Print the names of the checks and what they look at");
  forms->add_flag("--prometheus", command->prometheus, "Print metrics for node_exporter");
  return forms
      ->add_flag("--fingerprint", command->fingerprint,
                 "Print what machines should have in common, for --expect")
      ->excludes(check);
}

// Adds --from with the options that belong to it.
CLI::Option* add_file(DoctorCommand* command, CLI::App* sub) {
  CLI::Option* file = sub->add_option("--from", command->file,
                                      "Judge a file with a topology: XML of hwloc (lstopo) or of "
                                      "NCCL (NCCL_TOPO_DUMP_FILE)")
                          ->type_name("FILE");
  sub->add_option("--host", command->options.host,
                  "The host of a file that describes several, by number or name")
      ->needs(file);
  sub->add_option("--nccl-version", command->options.nccl_version,
                  "The release of NCCL whose rules count for a file")
      ->needs(file);
  return file;
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  CLI::App* sub = app.add_subcommand(
      "doctor", "Find out why GPUDirect RDMA is not working or slow, and what to do about it");
  add_footer(sub, "nccl-gdr doctor --check port-state,pci-acs", usual_statuses("a check failed"));
  CLI::Option* fingerprint = add_forms(command.get(), sub);
  CLI::Option* root =
      sub->add_option("--root", command->root,
                      "Look at the /proc, /sys, /dev and /etc in this folder, of another machine")
          ->capture_default_str();
  CLI::Option* file = add_file(command.get(), sub)->excludes(root, fingerprint);
  sub->add_option("--expect", command->good,
                  "Report in what this machine differs from this --fingerprint of a good one")
      ->type_name("FILE")
      ->excludes(file, fingerprint);
  sub->add_option("--since", command->since,
                  "Judge the error counters of ports by how they moved since this --json report")
      ->type_name("FILE")
      ->excludes(file, fingerprint);
  sub->callback([command] { run(*command); });
}

}  // namespace gdr::tools
