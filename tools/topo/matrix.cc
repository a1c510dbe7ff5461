#include <fmt/format.h>

#include <array>
#include <set>

#include "tools/topo/columns.h"
#include "tools/topo/expected_share.h"
#include "tools/topo/labels.h"
#include "tools/topo/text.h"

namespace gdr::topology {
namespace {

constexpr char kIndent[] = "  ";

struct Meaning {
  const char* name;
  const char* text;
};
constexpr std::array<Meaning, 12> kMeanings = {{
    {"X", "the device itself"},
    {"NV#", "that many NVLinks"},
    {"NVL", "NVLink"},
    {"NVB", "NVLink, over one GPU between"},
    {"C2C", "NVLink-C2C"},
    {"PIX", "one PCIe switch at most"},
    {"PXB", "several PCIe switches, no host bridge"},
    {"P2C", "NVLink-C2C to the CPU, PCIe from there"},
    {"PXN", "NVLink to a GPU near the NIC, PCIe from there"},
    {"PHB", "the host bridge of one NUMA node"},
    {"NODE", "two host bridges of one NUMA node"},
    {"SYS", "from one NUMA node to another"},
}};

std::string gpu_name(size_t gpu) { return fmt::format("GPU{}", gpu); }
std::string nic_name(size_t hca) { return fmt::format("NIC{}", hca); }

std::vector<TextRow> matrix_rows(const RailDecision& view) {
  const Machine& machine = view.machine;
  size_t gpus = machine.gpus.size(), hcas = machine.hcas.size();
  std::vector<TextRow> rows(1, TextRow{""});
  for (size_t i = 0; i < gpus; ++i) rows[0].push_back(gpu_name(i));
  for (size_t i = 0; i < hcas; ++i) rows[0].push_back(nic_name(i));
  rows[0].insert(rows[0].end(), {"CPU Affinity", "NUMA Affinity"});
  for (size_t i = 0; i < gpus; ++i) {
    TextRow row{gpu_name(i)};
    for (size_t j = 0; j < gpus; ++j) row.push_back(gpu_gpu_text(view, i, j));
    for (size_t j = 0; j < hcas; ++j) row.push_back(gpu_hca_text(view, i, j));
    const Attachment& at = machine.gpus[i].at;
    row.push_back(at.numa < 0 ? "N/A" : cpu_list(machine.numa_nodes[at.numa].cpus));
    row.push_back(numa_text(machine, at));
    rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < hcas; ++i) {  // without affinity, as nvidia-smi has it
    TextRow row{nic_name(i)};
    for (size_t j = 0; j < gpus; ++j) row.push_back(gpu_hca_text(view, j, i));
    for (size_t j = 0; j < hcas; ++j) row.push_back(hca_hca_text(view, i, j));
    rows.push_back(std::move(row));
  }
  return rows;
}

// The words that the matrix uses, and no others.
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
  for (size_t gpu : gpus_of_rail(plan, rail)) text += (text.empty() ? "" : ", ") + gpu_name(gpu);
  return text.empty() ? "none" : text;
}

std::string rails_text(const RailDecision& view) {
  if (view.plan.rails.empty()) return "\nRails: none\n";
  std::vector<TextRow> rows{{"rail", "port", "PCI address", "NUMA", "speed", "state", "GPUs"}};
  for (size_t i = 0; i < view.plan.rails.size(); ++i) {
    const Rail& rail = view.plan.rails[i];
    const Hca& hca = view.machine.hcas[rail.port.hca];
    const Port& port = hca.ports[rail.port.port];
    std::string gpus = joined_gpus(view.plan, i);
    if (!rail.usable) gpus += ": " + rail.why_not;
    rows.push_back({std::to_string(rail.id), port_label(view.machine, rail.port), address_text(hca),
                    numa_text(view.machine, hca.at), speed_text(port.speed_mbps),
                    state_text(port.state), gpus});
  }
  return "\nRails\n" + aligned(rows, kIndent);
}

std::string others_text(const RailDecision& view) {
  if (view.plan.others.empty()) return "";
  std::vector<TextRow> rows;
  for (const ExcludedPort& other : view.plan.others) {
    rows.push_back({port_label(view.machine, other.port), other.reason});
  }
  return "\nNot rails\n" + aligned(rows, kIndent);
}

TextRow gpu_row(const RailDecision& view, size_t gpu) {
  const Gpu& device = view.machine.gpus[gpu];
  const GpuRails& own = view.plan.gpus[gpu];
  TextRow row{gpu_name(gpu), device.bdf.to_string(), numa_text(view.machine, device.at)};
  if (own.rails.empty()) {
    row.insert(row.end(), {"none", "-", "-", "no: it has no rail", "no: it has no rail"});
    return row;
  }
  std::string rails;
  for (int rail : own.rails) {
    rails += fmt::format("{}{}", rails.empty() ? "" : ", ", view.plan.rails[rail].id);
  }
  int hca = view.plan.rails[own.rails.front()].port.hca;
  std::string path = gpu_hca_text(view, gpu, hca);
  Verdicts verdicts = verdicts_of(view, gpu, hca);
  std::string receive = to_string(verdicts.receive);
  std::string send = to_string(verdicts.send);
  if (send == receive) send = verdicts.send.direct ? "yes: likewise" : "no: likewise";
  row.insert(row.end(), {rails, path, expected_share(path), receive, send});
  return row;
}

std::string gpus_text(const RailDecision& view) {
  if (view.machine.gpus.empty()) return "\nGPUs: none\n";
  std::vector<TextRow> rows{{"GPU", "PCI address", "NUMA", "rails", "path", "expected share",
                             "GPUDirect receive", "GPUDirect send"}};
  for (size_t i = 0; i < view.machine.gpus.size(); ++i) rows.push_back(gpu_row(view, i));
  return "\nGPUs\n" + aligned(rows, kIndent) + "\n" + kExpectedShareNote + "\n";
}

}  // namespace

std::string matrix_text(const RailDecision& view) {
  std::vector<TextRow> rows = matrix_rows(view);
  return aligned(rows, "") + legend(rows) + nic_legend(view.machine) + rails_text(view) +
         others_text(view) + gpus_text(view);
}

}  // namespace gdr::topology
