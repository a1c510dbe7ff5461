// Variables that do nothing, or not what is meant, each by itself. Those that contradict each other
// are in nccl_contradictions.cc.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_names.h"
#include "tools/doctor/nccl_settings.h"
#include "topology/gdr_level.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kLevels[][19] = {"NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"};

bool is_level(const std::string& name) { return name == kLevels[0] || name == kLevels[1]; }

// What the tables of the plugin know of a variable. A level as a number is judged below.
void judge_findings(const Host& host, const Findings& findings, Observations* seen) {
  for (const Finding& finding : findings) {
    const bool is_bad_level = is_level(finding.subject) && finding.severity == Severity::kError;
    if (is_level(finding.subject) && !is_bad_level) continue;
    const std::string evidence =
        fmt::format("{}: {}", setting_text(host, finding.subject), finding.text);
    if (finding.severity == Severity::kInfo) {
      seen->push_back(ok(finding.subject, evidence));
      continue;
    }
    seen->push_back(warning(finding.subject, evidence,
                            finding.fix.empty() ? unset_text(host, finding.subject) : finding.fix));
  }
}

// Guides number the levels in several orders: 0 LOC, 3 SYS, 4 PHB, 5 PIX; or 0 to 5 for LOC, PIX,
// PXB, PHB, NODE, SYS. NCCL's order is that of ncclGetLevel() in its src/graph/paths.cc.
void judge_level_number(const Host& host, const char* name, Observations* seen) {
  const std::optional<std::string> value = nccl_setting(host, name);
  if (!value.has_value()) return;
  const Result<topology::GdrLevel> level = topology::GdrLevel::parse(*value);
  if (!level || level->number_note().empty()) return;
  seen->push_back(warning(
      name,
      fmt::format("{}: NCCL takes this number for {} (0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above "
                  "SYS), and guides number the levels differently",
                  setting_text(host, name), level->to_string()),
      fmt::format("write the name, {} if NCCL's reading is meant: {}", level->to_string(),
                  set_text(host, name, level->to_string()))));
}

void judge_spelling(const Host& host, Observations* seen) {
  for (const auto& [name, value] : host.environment) {
    const bool is_of_core = name.starts_with("NCCL_") && !name.starts_with("NCCL_IB_") &&
                            !name.starts_with("NCCL_SOCKET_");
    if (!is_of_core || is_nccl_name(name)) continue;
    const std::string like = nccl_name_like(name);
    if (like.empty()) continue;
    seen->push_back(warning(
        name, setting_text(host, name) + ": NCCL 2.20 to 2.30 read no variable of this name",
        "check the spelling; the nearest name is " + like));
  }
}

void judge_file(const Host& host, const char* name, Observations* seen) {
  const std::optional<std::string> file = nccl_setting(host, name);
  if (!file.has_value()) return;
  std::error_code error;
  if (std::filesystem::exists(file->starts_with("/") ? host.path(*file).string() : *file, error)) {
    return;
  }
  seen->push_back(warning(name,
                          setting_text(host, name) + ": there is no such file, and NCCL goes "
                                                     "on without it",
                          unset_text(host, name) + ", or create the file"));
}

// Settings that people leave behind after a test. They are harmless where there is nothing to lose.
void judge_leftovers(const Host& host, Observations* seen) {
  const size_t gpus = gpu_count(host);
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
    if (nccl_number(host, name) != 1 || gpus < 2) continue;
    seen->push_back(warning(name,
                            fmt::format("{}: {} GPUs of this machine then exchange data by a "
                                        "slower path",
                                        setting_text(host, name), gpus),
                            unset_text(host, name)));
  }
  if (nccl_number(host, "NCCL_NET_GDR_READ") == 0 && gpus > 0) {
    seen->push_back(warning("NCCL_NET_GDR_READ",
                            setting_text(host, "NCCL_NET_GDR_READ") +
                                ": everything that GPUs send is copied through host memory",
                            unset_text(host, "NCCL_NET_GDR_READ")));
  }
}

Observations run_nccl_variables(const Host& host) {
  const config::Description description = config::describe(host.environment);
  Observations seen;
  for (const config::Row& row : description.rows) judge_findings(host, row.findings, &seen);
  for (const config::NotApplicableRow& row : description.not_applicable) {
    judge_findings(host, row.findings, &seen);
  }
  judge_findings(host, description.unknown, &seen);
  for (const char* name : kLevels) judge_level_number(host, name, &seen);
  judge_spelling(host, &seen);
  for (const char* name : {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"}) judge_file(host, name, &seen);
  judge_leftovers(host, &seen);
  if (!seen.empty()) return seen;
  if (!host.environment.empty()) {
    return {ok("", fmt::format("each of the {} variables that are set does what it says",
                               host.environment.size()))};
  }
  return {ok("", "no variable of NCCL or the plugin is set")};
}

}  // namespace

Check nccl_variables() {
  return {.name = "nccl-variables",
          .looks_at = "NCCL_* and GDR_NCCL_* variables that do nothing or not what is meant",
          .why =
              "NCCL ignores what it does not know and reads some values differently from the "
              "guides, without a message.",
          .cost = Cost::kRisk,
          .run = run_nccl_variables};
}

}  // namespace gdr::tools::doctor
