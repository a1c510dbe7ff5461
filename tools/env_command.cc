#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

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

std::vector<std::string> texts_of(const Findings& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) texts.push_back(to_string(finding));
  return texts;
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

std::string env_json(const Description& description) {
  nlohmann::ordered_json root;
  root["variables"] = nlohmann::ordered_json::array();
  for (const Row& row : description.rows) {
    const config::Variable& variable = *row.variable;
    root["variables"].push_back({{"name", variable.name},
                                 {"type", variable.type},
                                 {"accepted", variable.accepted},
                                 {"default", variable.default_text},
                                 {"unit", variable.unit},
                                 {"since", variable.since},
                                 {"state", state_name(row.state)},
                                 {"value", row.value},
                                 {"effective", row.effective},
                                 {"findings", texts_of(row.findings)},
                                 {"doc", variable.doc}});
  }
  root["not_applicable"] = nlohmann::ordered_json::array();
  for (const config::NotApplicableRow& row : description.not_applicable) {
    root["not_applicable"].push_back({{"name", row.variable->name},
                                      {"value", row.value},
                                      {"reason", row.variable->reason},
                                      {"findings", texts_of(row.findings)}});
  }
  root["unknown"] = texts_of(description.unknown);
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void add_env_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("env", "Print the plugin's environment variables and their values");
  add_footer(command, "nccl-gdr env", usual_statuses("a value is rejected, or a name is unknown"));
  struct Flags {
    bool markdown = false;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::Option* json = command->add_flag("--json", flags->json, "Print JSON");
  command->add_flag("--markdown", flags->markdown, "Print docs/environment.md")->excludes(json);
  command->callback([flags] {
    if (flags->markdown) {
      return print_now(config::markdown());
    }
    Description description = config::describe(config::process_environment());
    print_now(flags->json ? env_json(description) : env_text(description));
    if (!is_clean(description)) throw CLI::RuntimeError(kExitFailed);
  });
}

}  // namespace gdr::tools
