#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tools/inspection/labels.h"
#include "tools/inspection/text_table.h"
#include "tools/prediction/rail_agreement.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

constexpr char kIndent[] = "  ";
constexpr char kNothing[] =
    "The machine shows neither a GPU nor an HCA. On the machine itself, lspci, nvidia-smi -L and\n"
    "ibstat show whether the hardware or a driver is missing, or devices of the container. To try "
    "the\n"
    "plugin without hardware: nccl-gdr with-softhca nccl-gdr topo\n";

struct Meaning {
  const char* name;
  const char* text;
};
constexpr std::array<Meaning, 13> kMeanings = {{
    {"X", "the device itself"},
    {"NV#", "NVLink, with that many links"},
    {"NVL", "NVLink"},
    {"NVB", "NVLink through one other GPU"},
    {"C2C", "NVLink-C2C"},
    {"PIX", "at most one PCIe switch"},
    {"PXB", "several PCIe switches, but no host bridge"},
    {"P2C", "NVLink-C2C to the CPU, then PCIe"},
    {"PXN", "NVLink to a GPU near the NIC, then PCIe"},
    {"PHB", "the host bridge of one NUMA node"},
    {"NODE", "two host bridges of one NUMA node; NCCL counts it as PHB"},
    {"SYS", "from one NUMA node to another"},
    {"?", "unknown: the source does not state whether NVLinks connect the GPUs"},
}};

std::string nic_name(size_t hca) { return fmt::format("NIC{}", hca); }

std::vector<TextRow> matrix_rows(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  size_t gpus = machine.gpus.size(), hcas = machine.hcas.size();
  std::vector<TextRow> rows(1, TextRow{""});
  for (size_t i = 0; i < gpus; ++i) rows[0].push_back(gpu_label(i));
  for (size_t i = 0; i < hcas; ++i) rows[0].push_back(nic_name(i));
  rows[0].insert(rows[0].end(), {"CPU Affinity", "NUMA Affinity"});
  for (size_t i = 0; i < gpus; ++i) {
    TextRow row{gpu_label(i)};
    for (size_t j = 0; j < gpus; ++j) row.push_back(gpu_gpu_text(decision, i, j));
    for (size_t j = 0; j < hcas; ++j) row.push_back(gpu_hca_text(decision, i, j));
    const Attachment& at = machine.gpus[i].at;
    row.push_back(at.numa < 0 ? "N/A" : cpu_list(machine.numa_nodes[at.numa].cpus));
    row.push_back(numa_text(machine, at));
    rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < hcas; ++i) {  // without the affinity columns, like nvidia-smi
    TextRow row{nic_name(i)};
    for (size_t j = 0; j < gpus; ++j) row.push_back(gpu_hca_text(decision, j, i));
    for (size_t j = 0; j < hcas; ++j) row.push_back(hca_hca_text(decision, i, j));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Explains the words that the matrix uses, and no others.
std::string legend(const std::vector<TextRow>& matrix) {
  std::set<std::string> used;
  for (size_t i = 1; i < matrix.size(); ++i) {
    for (size_t j = 1; j < matrix[0].size() - 2 && j < matrix[i].size(); ++j) {
      const std::string& cell = matrix[i][j];
      bool counted = cell.size() > 2 && cell.starts_with("NV") && cell[2] >= '0' && cell[2] <= '9';
      used.insert(counted ? "NV#" : cell);
    }
  }
  std::vector<TextRow> rows;
  for (const Meaning& meaning : kMeanings) {
    if (used.contains(meaning.name)) {
      rows.push_back({meaning.name, std::string("= ") + meaning.text});
    }
  }
  return rows.empty() ? "" : "\nLegend:\n\n" + aligned(rows, kIndent);
}

std::string nic_legend(const Machine& machine) {
  if (machine.hcas.empty()) return "";
  std::string text = "\nNIC Legend:\n\n";
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    text += fmt::format("  {}: {}\n", nic_name(i), clean_text(machine.hcas[i].name));
  }
  return text;
}

std::string joined_gpus(const RailPlan& plan, size_t rail) {
  std::string text;
  for (size_t gpu : gpus_of_rail(plan, rail)) text += (text.empty() ? "" : ", ") + gpu_label(gpu);
  return text.empty() ? "none" : text;
}

// `map` is the user's; "" where rails are by distance.
std::string rails_text(const RailDecision& decision, const std::string& map) {
  if (decision.plan.rails.empty()) return "\nRails: none\n";
  std::vector<TextRow> rows{{"rail", "port", "PCI address", "NUMA", "speed", "state", "GPUs"}};
  for (size_t i = 0; i < decision.plan.rails.size(); ++i) {
    const Rail& rail = decision.plan.rails[i];
    const Hca& hca = hca_of(decision.machine, rail.port);
    const Port& port = port_of(decision.machine, rail.port);
    std::string gpus = joined_gpus(decision.plan, i);
    if (!rail.usable) gpus += ": " + rail.why_not;
    rows.push_back({std::to_string(rail.id), port_label(decision.machine, rail.port),
                    address_text(hca), numa_text(decision.machine, hca.at),
                    speed_text(port.speed_mbps), state_text(port.state), gpus});
  }
  const std::string by = map.empty() ? "" : ", by " + clean_text(map);
  return "\nRails" + by + "\n" + aligned(rows, kIndent);
}

std::string excluded_text(const RailDecision& decision,
                          const std::vector<discovery::SkippedPort>& not_offered) {
  if (decision.plan.excluded.empty() && not_offered.empty()) return "";
  std::vector<TextRow> rows;
  for (const ExcludedPort& one : decision.plan.excluded) {
    rows.push_back({port_label(decision.machine, one.port), one.reason});
  }
  std::string text = "\nExcluded ports\n" + aligned(rows, kIndent);
  for (const discovery::SkippedPort& one : not_offered) {
    text += kIndent + clean_text(to_string(one)) + "\n";
  }
  return text;
}

// The reasons that verdicts of a table refer to by number.
class Reasons {
 public:
  // Returns "yes [1]" or "no [2]"; GPUs with one reason have one number.
  std::string cell(bool direct, const std::string& reason) {
    auto found = std::find(reasons_.begin(), reasons_.end(), reason);
    const auto number = found - reasons_.begin() + 1;
    if (found == reasons_.end()) reasons_.push_back(reason);
    return fmt::format("{} [{}]", direct ? "yes" : "no", number);
  }

  std::string text() const {
    std::string text;
    for (size_t i = 0; i < reasons_.size(); ++i) {
      text += wrapped(fmt::format("{}[{}] ", kIndent, i + 1), reasons_[i]);
    }
    return text;
  }

 private:
  std::vector<std::string> reasons_;
};

TextRow gpu_row(const RailDecision& decision, size_t gpu, Reasons* reasons) {
  const Gpu& device = decision.machine.gpus[gpu];
  const Rail* first = decision.plan.first_rail_of(gpu);
  TextRow row{gpu_label(gpu), device.bdf.to_string(), numa_text(decision.machine, device.at)};
  if (first == nullptr) {
    const std::string no_rail = reasons->cell(false, "the GPU has no rail");
    row.insert(row.end(), {"none", "-", choice_text(decision, gpu), no_rail, no_rail});
    return row;
  }
  const Verdicts verdicts = verdicts_between(decision, gpu, first->port.hca);
  const std::string receive = reasons->cell(verdicts.receive.direct, verdicts.receive.reason);
  const std::string send = reasons->cell(verdicts.send.direct, verdicts.send.reason);
  row.insert(row.end(),
             {rail_numbers(decision.plan, gpu), gpu_hca_text(decision, gpu, first->port.hca),
              choice_text(decision, gpu), receive, send});
  return row;
}

std::string gpus_text(const RailDecision& decision) {
  if (decision.machine.gpus.empty()) return "\nGPUs: none\n";
  std::vector<TextRow> rows{
      {"GPU", "PCI address", "NUMA", "rails", "path", "NCCL uses", "receive", "send"}};
  Reasons reasons;
  for (size_t i = 0; i < decision.machine.gpus.size(); ++i) {
    rows.push_back(gpu_row(decision, i, &reasons));
  }
  return "\nGPUs\n" + aligned(rows, kIndent) +
         "\nReceive, send: whether NCCL uses GPUDirect RDMA with the GPU's own rail\n" +
         reasons.text();
}

std::string list(const std::string& title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text = "\n" + title + "\n";
  for (const std::string& item : items) text += wrapped(kIndent, item);
  return text;
}

// Merges sentences of several GPUs, "GPU0: ..." and "GPU1: ...", that are the same but for the GPU.
std::vector<std::string> merged_by_gpu(const std::vector<std::string>& sentences) {
  std::vector<std::pair<std::string, std::string>> groups;  // GPUs, and what follows ": "
  for (const std::string& one : sentences) {
    const size_t colon = std::min(one.find(": "), one.size());
    const std::string rest = one.substr(colon);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& other) { return other.second == rest; });
    if (group == groups.end()) {
      groups.emplace_back(one.substr(0, colon), rest);
    } else {
      group->first += ", " + one.substr(0, colon);
    }
  }
  std::vector<std::string> merged;
  for (const auto& [gpus, rest] : groups) merged.push_back(gpus + rest);
  return merged;
}

std::string nccl_text(const RailDecision& decision) {
  const topology::nccl::Prediction& prediction = decision.prediction;
  if (decision.machine.gpus.empty() || prediction.devices().empty()) return "";
  const std::string release = release_text(prediction.settings());
  std::string text = "\nVerdicts and \"NCCL uses\" are those of " + release + ".\n";
  if (!prediction.failure().empty()) {
    text += "It fails on this machine: " + clean_text(prediction.failure()) + "\n";
  }
  const std::vector<topology::Disagreement> different = topology::disagreements(decision);
  text += list("Where NCCL does not follow the rails",
               merged_by_gpu(sentences(decision.machine, different)));
  const auto worse = std::find_if(different.begin(), different.end(),
                                  [](const topology::Disagreement& one) { return !one.as_good; });
  if (worse != different.end()) text += "\n`nccl-gdr doctor` states what to do about that.\n";
  return text + list("Assumptions", prediction.assumptions());
}

// Names the host where the source describes several, and what is wrong with the source.
std::string source_text(const Machine& machine) {
  std::string text;
  if (machine.hosts > 1) {
    const std::string name = machine.host.empty() ? "one" : clean_text(machine.host) + ", one";
    text = fmt::format("Host {} of {} in the source\n\n", name, machine.hosts);
  }
  for (const Finding& one : machine.findings) {
    if (one.kind == FindingKind::kTopologySource) text += wrapped("", clean_text(one.text)) + "\n";
  }
  return text;
}

}  // namespace

std::string matrix_text(const RailDecision& decision,
                        const std::vector<discovery::SkippedPort>& not_offered,
                        const std::string& map) {
  const std::string source = source_text(decision.machine);
  if (decision.machine.gpus.empty() && decision.machine.hcas.empty()) {
    return source + (not_offered.empty() ? kNothing : excluded_text(decision, not_offered));
  }
  const std::vector<TextRow> rows = matrix_rows(decision);
  return source + aligned(rows, "") + legend(rows) + nic_legend(decision.machine) +
         rails_text(decision, map) + excluded_text(decision, not_offered) + gpus_text(decision) +
         nccl_text(decision);
}

}  // namespace gdr::tools::topo
