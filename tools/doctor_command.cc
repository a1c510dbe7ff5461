#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/compare.h"
#include "tools/doctor/fingerprint.h"
#include "tools/doctor/host.h"
#include "tools/doctor/job_settings.h"
#include "tools/doctor/report.h"
#include "tools/doctor/wrap.h"
#include "tools/topo/inspection.h"

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
  bool fix_script = false;
  bool list = false;
  bool fingerprint = false;
  std::optional<std::string> good;    // the file of a good machine
  std::vector<std::string> compared;  // files
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

std::string text_of(const DoctorCommand& command, const doctor::Report& report,
                    const doctor::Host& host) {
  if (command.json) return doctor::to_json(report);
  if (command.prometheus) return doctor::to_prometheus(report);
  if (command.fix_script) {
    // Settings for jobs are about no check.
    const bool has_settings = command.names.empty() && host.inspection.has_value();
    return doctor::to_fix_script(report,
                                 has_settings ? doctor::job_settings(*host.inspection) : "");
  }
  return doctor::to_text(report, command.all || !command.names.empty());
}

void end_with(int code) {
  if (code != kExitOk) throw CLI::RuntimeError(code);
}

void print_comparison(const DoctorCommand& command, const doctor::Comparison& result) {
  fmt::print("{}", command.json ? doctor::to_json(result) : doctor::to_text(result));
  end_with(result.deviations.empty() ? kExitOk : kExitFailed);
}

void compare_files(const DoctorCommand& command) {
  Result<std::vector<doctor::Profile>> nodes = doctor::read_fingerprints(command.compared);
  if (!nodes) stop(kExitUsage, nodes.error().text);
  print_comparison(command, doctor::compare_fleet(*nodes));
}

void expect_good(const DoctorCommand& command) {
  Result<doctor::Profile> good = doctor::read_good(*command.good);
  if (!good) stop(kExitUsage, good.error().text);
  Result<doctor::Host> host = doctor::read_host(command.root, false);
  if (!host) stop(kExitCouldNotRun, host.error().text);
  Result<doctor::Profile> own = doctor::parse_fingerprint(doctor::to_fingerprint(*host));
  if (!own) stop(kExitCouldNotRun, own.error().text);
  if (own->name.empty()) own->name = command.root;
  print_comparison(command, doctor::compare_with_good(*own, *good));
}

// A file has a topology alone.
void check_file(const DoctorCommand& command) {
  if (!command.file.has_value()) {
    if (!command.options.host && !command.options.nccl_version) return;
    stop(kExitUsage, "--host and --nccl-version belong to --from, which is missing");
  }
  if (command.file->empty()) {
    stop(kExitUsage, "--from has no name of a file. Fix: give one, or leave --from out");
  }
  if (command.root != "/" || command.fingerprint || command.good || !command.compared.empty()) {
    stop(kExitUsage,
         "--from judges a file alone. Fix: leave out --root, --fingerprint, --expect and "
         "--compare");
  }
}

// Stops at options that have no effect together.
void check_combination(const DoctorCommand& command) {
  check_file(command);
  const bool checks = !command.names.empty();
  if (command.fingerprint && checks) {
    stop(kExitUsage, "--fingerprint runs no check. Fix: leave out --check");
  }
  const bool prints = command.all || command.list || command.prometheus || command.fix_script ||
                      command.fingerprint;
  if (!command.compared.empty() && (checks || prints || command.root != "/")) {
    stop(kExitUsage, "--compare reads files alone. Fix: leave out other options but --json");
  }
  if (command.good.has_value() && (checks || prints)) {
    stop(
        kExitUsage,
        "--expect compares, and runs no check. Fix: leave out other options but --root and --json");
  }
}

// Whether a file cannot be what was meant, or cannot be read.
int exit_code_of(const Error& error) {
  const bool is_wrong = error.code == Code::kInvalidUsage || error.code == Code::kInvalidArgument;
  return is_wrong ? kExitUsage : kExitCouldNotRun;
}

doctor::Host host_of(const DoctorCommand& command, bool watches_errors) {
  if (!command.file.has_value()) {
    Result<doctor::Host> host = doctor::read_host(command.root, watches_errors);
    if (!host) stop(kExitCouldNotRun, host.error().text);
    return std::move(*host);
  }
  topo::InspectOptions options = command.options;
  options.from = *command.file;
  Result<doctor::Host> host = doctor::read_host_of_file(options);
  if (!host) stop(exit_code_of(host.error()), host.error().text);
  return std::move(*host);
}

void run_unguarded(const DoctorCommand& command) {
  check_combination(command);
  if (!command.compared.empty()) return compare_files(command);
  if (command.good) return expect_good(command);
  const std::vector<doctor::Check> checks = chosen(command.names);
  if (command.list) return print_list(checks);
  const bool watches_errors =
      !command.fingerprint &&
      std::any_of(checks.begin(), checks.end(), [](const doctor::Check& check) {
        return check.name == std::string_view("error-counters");
      });
  const doctor::Host host = host_of(command, watches_errors);
  if (command.fingerprint) return fmt::print("{}", doctor::to_fingerprint(host));
  const doctor::Report report = doctor::run_checks(checks, host);
  fmt::print("{}", text_of(command, report, host));
  end_with(doctor::exit_code_of(report));
}

// No content of a file may end the process by an exception.
void run(const DoctorCommand& command) {
  try {
    run_unguarded(command);
  } catch (const CLI::Error&) {
    throw;  // an exit status
  } catch (const std::exception& error) {
    stop(kExitCouldNotRun, std::string("the doctor could not look at the machine: ") +
                               error.what() + ". Fix: report this as an error of nccl-gdr");
  }
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  CLI::App* sub = app.add_subcommand(
      "doctor", "Find out why GPUDirect RDMA is not working or slow, and what to do about it");
  sub->add_option("--check", command->names, "Run only these checks, and print all they saw")
      ->delimiter(',');
  sub->add_option("--root", command->root,
                  "Look at the /proc, /sys, /dev and /etc in this folder, of another machine")
      ->capture_default_str();
  sub->add_option("--from", command->file,
                  "Judge a file with a topology: XML of hwloc (lstopo) or of NCCL "
                  "(NCCL_TOPO_DUMP_FILE)");
  sub->add_option("--host", command->options.host,
                  "With --from: the host of a file that describes several, by number or name");
  sub->add_option("--nccl-version", command->options.nccl_version,
                  "With --from: the release of NCCL whose rules count");
  CLI::Option_group* forms = sub->add_option_group("Output", "At most one of:");
  forms->add_flag("--all", command->all, "Print every check, not only what is wrong");
  forms->add_flag("--list", command->list, "Print the names of the checks and what they look at");
  forms->add_flag("--json", command->json, "Print JSON (docs/doctor.schema.json)");
  forms->add_flag("--prometheus", command->prometheus, "Print metrics for node_exporter");
  forms->add_flag(
      "--fix-script", command->fix_script,
      "Print a shell script with the fixes, their undo, and settings for jobs; nothing is run");
  forms->add_flag("--fingerprint", command->fingerprint,
                  "Print what machines should have in common, for --expect and --compare");
  forms->require_option(0, 1);
  CLI::Option* expect =
      sub->add_option("--expect", command->good,
                      "Print in what this machine differs from this --fingerprint of a good one");
  sub->add_option("--compare", command->compared,
                  "Print which of these files of --fingerprint differ from most, and in what")
      ->expected(2, CLI::detail::expected_max_vector_size)
      ->excludes(expect);
  sub->callback([command] { run(*command); });
}

}  // namespace gdr::tools
