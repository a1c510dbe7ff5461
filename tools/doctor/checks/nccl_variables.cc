// Variables that do nothing, or not what is meant.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "plugin/config/load.h"
#include "plugin/config/values.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/inspect_settings.h"
#include "tools/inspection/text_table.h"
#include "topology/gdr_level.h"
#include "topology/live/read_machine.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kLevels[][19] = {"NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"};

bool is_level(const std::string& name) { return name == kLevels[0] || name == kLevels[1]; }

// What the tables of the plugin know of a variable. A level as a number is judged below, and a name
// with a blank by nccl_conf.cc.
void judge_findings(const Host& host, const Findings& findings, Observations* seen) {
  for (const Finding& finding : findings) {
    const bool is_bad_level = is_level(finding.subject) && finding.severity == Severity::kError;
    if (is_level(finding.subject) && !is_bad_level) continue;
    if (finding.subject.find(' ') != std::string::npos) continue;
    const std::string evidence =
        fmt::format("{} ({})", finding.text, source_text(host, finding.subject));
    if (finding.severity == Severity::kInfo) {
      seen->push_back(ok(finding.subject, evidence));
      continue;
    }
    std::string fix = finding.fix;
    if (fix.empty()) fix = correct_text(host, finding.subject);
    seen->push_back(
        observation_of({finding.kind, Severity::kWarning, finding.subject, evidence, fix}));
  }
}

// What many guides set, and no release of NCCL has read for years.
constexpr char kRemoved[][21] = {"NCCL_IB_GDR_LEVEL", "NCCL_IB_CUDA_SUPPORT"};

bool is_removed(const std::string& name) { return name == kRemoved[0] || name == kRemoved[1]; }

// Variables of NCCL's own transport matter where that is used, and do nothing in the plugin.
void judge_not_applicable(const Host& host, const config::Description& description,
                          Observations* seen) {
  if (!asks_for_this_plugin(host)) return;
  for (const config::NotApplicableRow& row : description.not_applicable) {
    if (!is_removed(row.variable->name)) judge_findings(host, row.findings, seen);
  }
}

// They do nothing with any transport, whatever their value.
void judge_removed(const Host& host, Observations* seen) {
  for (const char* name : kRemoved) {
    if (!nccl_setting(host, name).has_value()) continue;
    const bool is_off = name == kRemoved[1] && nccl_number(host, name) == 0;
    seen->push_back(
        warning(name, value_text(host, name) + ": no release since NCCL 2.4 reads it",
                is_off ? unset_text(host, name) +
                             ", and export NCCL_NET_GDR_LEVEL=LOC to turn GPUDirect RDMA off"
                       : unset_text(host, name) +
                             "; NCCL_NET_GDR_LEVEL is read in its place, as PIX, PXB, PHB or SYS"));
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
                  value_text(host, name), level->to_string()),
      fmt::format("write the name, {} if NCCL's reading is meant: {}", level->to_string(),
                  set_text(host, name, level->to_string()))));
}

// Names that NCCL may not read: a warning where one looks misspelt. Frameworks and other plugins
// have variables of their own, and NCCL some that it does not document.
void judge_spelling(const Host& host, Observations* seen) {
  std::vector<std::string> unknown_ones;
  for (const auto& [name, value] : host.environment) {
    const bool is_of_core = name.starts_with("NCCL_") && !name.starts_with("NCCL_IB_") &&
                            !name.starts_with("NCCL_SOCKET_") &&
                            name.find(' ') == std::string::npos;
    if (!is_of_core || is_nccl_name(name)) continue;
    const std::string like = nccl_name_like(name);
    if (like.empty()) {
      unknown_ones.push_back(config::printable(name));
      continue;
    }
    seen->push_back(
        warning(name, value_text(host, name) + ": NCCL 2.20 to 2.30 read no variable of this name",
                "check the spelling; the nearest name is " + like));
  }
  if (unknown_ones.empty()) return;
  seen->push_back(ok(topo::short_list(unknown_ones),
                     "NCCL 2.20 to 2.30 document no variable of this name; frameworks and other "
                     "plugins have some of their own"));
}

// The file that a variable names, as this process finds it; nothing where it is unset. The name may
// be relative to the folder of a job.
std::optional<std::string> file_of(const Host& host, const char* name) {
  const std::optional<std::string> file = nccl_setting(host, name);
  if (!file.has_value() || (host.is_live && !file->starts_with("/"))) return file;
  return host.path(*file).string();
}

// NCCL takes the channels of this file as they are, and fails where a GPU of it is not in the job
// (ncclTopoGetChannelFromXml in its src/graph/search.cc).
void judge_graph_file(const Host& host, Observations* seen) {
  constexpr char kName[] = "NCCL_GRAPH_FILE";
  if (!host.environment.contains(kName)) return;
  if (auto unknown_file = left_out(host, kName)) return seen->push_back(*unknown_file);
  const std::string file = file_of(host, kName).value_or("");  // NCCL opens "", too
  const std::string fix = unset_text(host, kName);
  std::error_code error;
  if (std::filesystem::is_fifo(file, error)) return;  // reading it would block
  const Result<std::set<int>> gpus = topology::gpus_of_graph(file);
  const auto known = static_cast<int>(gpu_count(host));
  const int last = gpus && !gpus->empty() ? *gpus->rbegin() : -1;
  const TextAndFix failed = split_fix(gpus ? "" : gpus.error().text);
  std::string why = failed.text;
  if (known > 0 && last >= known) {
    why = fmt::format("its channels use GPU{}, and this machine has {} GPUs", last, known);
  }
  if (!why.empty()) {
    seen->push_back(
        at_cost(Cost::kStops, failure(kName, value_text(host, kName) + ": NCCL fails: " + why,
                                      failed.fix.empty() ? fix : failed.fix + ", or " + fix)));
    return;
  }
  seen->push_back(warning(kName,
                          value_text(host, kName) +
                              (gpus->empty() ? ": the file has no channels, and NCCL searches for "
                                               "them as without it"
                                             : ": NCCL takes the channels of this file instead of "
                                               "those that it would find, and fails in jobs with "
                                               "other GPUs; the file is meant for experiments, not "
                                               "for a site's settings"),
                          fix));
}

bool has_nvlinks(const Host& host) {
  if (!host.inspection.has_value()) return false;
  const std::vector<topology::Gpu>& gpus = machine_of(host).gpus;
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const topology::Gpu& gpu) { return !gpu.nvlinks.empty(); });
}

// The CPUs on which strictly ordered writes of HCAs are known to be slow. In a virtual machine, the
// CPU's vendor is that of the host.
bool is_ordering_slow(const Host& host) {
  if (!host.inspection.has_value()) return false;
  const topology::Cpu& cpu = machine_of(host).cpu;
  return cpu.arch == "arm64" || cpu.vendor == "AuthenticAMD" || cpu.vendor == "HygonGenuine";
}

// Settings that people leave behind after a test. They are harmless where there is nothing to lose,
// and NCCL_P2P_DISABLE is needed on some machines without NVLink.
void judge_leftovers(const Host& host, Observations* seen) {
  const size_t gpus = gpu_count(host);
  const struct {
    const char* name;
    long long value;
    bool costs;
    const char* effect;
  } leftovers[] = {
      {"NCCL_P2P_DISABLE", 1, has_nvlinks(host), "GPUs do not use the NVLinks between them"},
      {"NCCL_SHM_DISABLE", 1, gpus > 1 && !has_nvlinks(host),
       "GPUs of this machine without peer-to-peer access exchange data over the "
       "network"},
      {"NCCL_NET_GDR_READ", 0, gpus > 0, "everything that GPUs send is copied through host memory"},
      {"NCCL_IB_PCI_RELAXED_ORDERING", 0, is_ordering_slow(host),
       "strictly ordered writes of HCAs reach a part of the bandwidth on this CPU"}};
  for (const auto& one : leftovers) {
    if (!one.costs || nccl_number(host, one.name) != one.value) continue;
    seen->push_back(warning(one.name, value_text(host, one.name) + ": " + one.effect,
                            unset_text(host, one.name)));
  }
}

}  // namespace

// NCCL reads the file of nvidia-topologyd where the variable is unset (ncclTopoGetSystem in its
// src/graph/topo.cc).
void judge_topology_file(const Host& host, Observations* seen) {
  constexpr char kName[] = "NCCL_TOPO_FILE";
  if (!host.file.empty()) {  // what its machine reads is unknown
    for (const Finding& one : decision_of(host).findings) {
      if (is_of_nccl_file(one)) seen->push_back(observation_of(one));
    }
    return;
  }
  const topology::ReadOptions defaults;
  const std::optional<std::string> named = file_of(host, kName);
  const std::string value = nccl_setting(host, kName).value_or("");
  if (host.environment.contains(kName) && (value.empty() || value == topology::kNoFile)) return;
  if (auto unknown_file = left_out(host, kName)) return seen->push_back(*unknown_file);
  const std::string file = named.value_or(host.path(defaults.default_topology_file).string());
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    for (Finding& one : topology::nccl_file_findings(file)) {
      if (named.has_value()) one.subject = kName;
      seen->push_back(observation_of(one));
    }
  } else if (named.has_value()) {
    const bool is_other = std::filesystem::exists(file, error);
    seen->push_back(warning(kName,
                            value_text(host, kName) +
                                (is_other ? ": it is not a file" : ": there is no such file") +
                                ", and NCCL goes on without it",
                            unset_text(host, kName) + ", or create the file"));
  }
}

Observations run_nccl_variables(const Host& host) {
  const config::Description description = config::describe(host.environment);
  Observations seen;
  for (const config::Row& row : description.rows) judge_findings(host, row.findings, &seen);
  judge_not_applicable(host, description, &seen);
  judge_removed(host, &seen);
  judge_findings(host, description.unknown, &seen);
  Findings of_prediction;
  (void)topo::nccl_settings(host.environment, {}, &of_prediction);
  judge_findings(host, of_prediction, &seen);
  for (const char* name : kLevels) judge_level_number(host, name, &seen);
  judge_spelling(host, &seen);
  judge_topology_file(host, &seen);
  judge_graph_file(host, &seen);
  judge_leftovers(host, &seen);
  if (!seen.empty()) return seen;
  if (!host.environment.empty()) {
    return {ok("", fmt::format("variables with known names: {}", host.environment.size()))};
  }
  return {nothing_set(host, "no variable of NCCL or the plugin is set")};
}

}  // namespace gdr::tools::doctor
