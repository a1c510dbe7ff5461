// The subcommands of nccl-gdr. Each function adds one to the application; CLI11 then calls it when
// the command line names it. A subcommand that does not succeed throws CLI::RuntimeError with one
// of the codes in tools/common/output.h.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace gdr::config {
struct Description;
}

namespace gdr::tools {

// `nccl-gdr conformance`: the conformance suite for network plugins.
void add_conformance_command(CLI::App& app);

// `nccl-gdr doctor`: finds out why GPUDirect RDMA is not working or slow, and what to do about it.
// Exits with 1 when a check failed, with 2 when a check does not exist, and with 3 when nothing
// could be looked at.
void add_doctor_command(CLI::App& app);

// `nccl-gdr env`: the plugin's environment variables and their effect in this environment. Exits
// with 1 when a value is rejected or a GDR_NCCL_* name is unknown.
void add_env_command(CLI::App& app);

// `nccl-gdr perf`: drives a plugin's table as NCCL's proxy does, and measures it.
void add_perf_command(CLI::App& app);

// `nccl-gdr topo`: shows GPUs, HCAs, the paths between them, rails, and where GPUDirect is
// possible; docs/topo.md describes options and output. Exits with 2 when an option's value or file
// cannot be used, and with 3 when the machine cannot be read or a file cannot be written.
void add_topo_command(CLI::App& app);

// `nccl-gdr with-softhca`: runs a program over the software HCA. Exits as the program does; with
// 125 where there is no software HCA, with 126 or 127 where the program cannot be run or found.
void add_with_softhca_command(CLI::App& app);

// Adds --version and all subcommands to an application, which must be named nccl-gdr.
void add_commands(CLI::App& app);

// Adds an option that is read by `parse`, which returns a Result. `value` must outlive the parsing.
template <class Value, class Parse>
CLI::Option* add_parsed_option(CLI::App* command, const std::string& name, Value& value,
                               Parse parse, const std::string& text) {
  auto take = [name, &value, parse](const std::string& given) {
    auto parsed = parse(given);
    if (!parsed) throw CLI::ValidationError(name + ": " + parsed.error().text);
    value = std::move(*parsed);
  };
  return command->add_option_function<std::string>(name, take, text);
}

// Returns the check of an option that takes a finite number above 0.
CLI::Validator positive_number();

// Returns the check of an option that takes digits alone.
CLI::Validator whole_number();

// Prints an error on stderr, which may be a full disk as well.
void print_error(const std::string& text);

// Ends the help of a command: an example, and the exit statuses.
void add_footer(CLI::App* command, const std::string& example, const std::string& statuses);

// Returns the exit statuses of a command whose status 1 means `failed`; "": it has no status 1.
std::string usual_statuses(const std::string& failed);

// Ends a subcommand with an error on stderr and that exit code.
[[noreturn]] void stop(int code, const std::string& text);
// The same for a machine that could not be read: with kExitUsage where an option or a file cannot
// be what was meant, else with kExitCouldNotRun.
[[noreturn]] void stop(const Error& error);

// Parses the command line of nccl-gdr and runs the subcommand, one of those that `add` adds.
// Returns the exit status.
int run_command_line(int argc, char** argv, void (*add)(CLI::App& app) = &add_commands);

// The output of `nccl-gdr env`.
std::string env_text(const config::Description& description);

}  // namespace gdr::tools
