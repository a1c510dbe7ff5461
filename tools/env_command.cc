#include <algorithm>
#include <memory>
#include <string>

#include "plugin/config/load.h"
#include "tools/commands.h"
#include "tools/common/output.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools {
namespace {

using config::Description;
using config::Row;

const char* state_name(Row::State state) {
  switch (state) {
    case Row::State::kDefault:
      return "default";
    case Row::State::kSet:
      return "set";
    case Row::State::kRejected:
      return "rejected";
  }
  return "";
}

std::string paragraph(const std::string& text) { return topo::wrapped("    ", text); }

std::string row_text(const Row& row) {
  const config::Variable& variable = *row.variable;
  std::string kind = std::string(variable.type) + ": " + variable.accepted;
  if (*variable.unit != '\0') kind += std::string(" (") + variable.unit + ")";
  std::string text =
      std::string(variable.name) + " = " + row.effective + "   [" + state_name(row.state) + "]\n" +
      paragraph(kind + "; default: " + variable.default_text) + paragraph(variable.doc);
  for (const Finding& finding : row.findings) text += paragraph("! " + to_string(finding));
  return text + "\n";
}

std::string not_applicable_text(const config::NotApplicableRow& row) {
  std::string text = std::string(row.variable->name) +
                     (row.value.empty() ? "" : " = " + config::printable(row.value)) +
                     "   [does not apply]\n" + paragraph(row.variable->reason);
  for (const Finding& finding : row.findings) text += paragraph("! " + to_string(finding));
  return text + "\n";
}

bool is_clean(const Description& description) {
  for (const Row& row : description.rows) {
    if (row.state == Row::State::kRejected) return false;
  }
  return std::all_of(description.unknown.begin(), description.unknown.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kInfo; });
}

}  // namespace

std::string env_text(const Description& description) {
  std::string text;
  for (const Row& row : description.rows) text += row_text(row);
  for (const config::NotApplicableRow& row : description.not_applicable) {
    text += not_applicable_text(row);
  }
  for (const Finding& finding : description.unknown) text += "! " + to_string(finding) + "\n";
  return text;
}

void add_env_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("env", "Print the plugin's environment variables and their values");
  add_footer(command, "nccl-gdr env", usual_statuses("a value is rejected, or a name is unknown"));
  auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "Print docs/environment.md");
  command->callback([markdown] {
    if (*markdown) return print_now(config::markdown());
    Description description = config::describe(config::process_environment());
    print_now(env_text(description));
    if (!is_clean(description)) throw CLI::RuntimeError(kExitFailed);
  });
}

}  // namespace gdr::tools
