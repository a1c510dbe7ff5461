// Settings of the firmware and the kernel: NUMA nodes, IOMMU, BARs, read requests, ACS.
#include <fmt/format.h>

#include <algorithm>

#include "tools/topo/checks.h"
#include "tools/topo/small_bars.h"

namespace gdr::tools::topo {
namespace {

constexpr int kGoodReadRequest = 4096;  // what vendors of HCAs recommend
constexpr int kSmallReadRequest = 512;  // below it, reads of host and GPU memory are slow

bool has_unknown_node(const Machine& machine, const Attachment& at) {
  return at.numa < 0 || machine.numa_nodes[static_cast<size_t>(at.numa)].id < 0;
}

// On a machine of one node every device is near it, whatever the firmware states. In a file of
// NCCL, devices of unknown node are on a CPU of their own beside that node.
void check_numa(const Machine& machine, CheckReport* report) {
  const auto nodes = std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                                   [](const NumaNode& node) { return node.id >= 0; });
  if (nodes < (machine.nccl_file ? 1 : 2)) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (has_unknown_node(machine, machine.gpus[i].at)) names.push_back(gpu_name(machine, i));
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const Hca& hca = machine.hcas[i];
    if (hca.bdf.has_value() && has_unknown_node(machine, hca.at)) {
      names.push_back(hca_name(machine, i));
    }
  }
  if (names.empty()) return;
  add_fault(report, FindingKind::kNuma, short_list(names),
            "the NUMA node is unknown (numa_node is -1), so that NCCL places them wrongly",
            "update the firmware, or write the node to numa_node in the device's folder of sysfs");
}

// Translation matters where peer-to-peer traffic need not pass an IOMMU at all. The SMMU of an Arm
// server is always in its way.
void check_iommu(const CheckInput& input, CheckReport* report) {
  if (input.machine().cpu.arch != "x86_64" || input.machine().gpus.empty()) return;
  std::vector<std::string> names;
  for (const auto& [hca, unused] : rails_by_hca(input.decision().plan)) {
    const Hca& one = input.machine().hcas[static_cast<size_t>(hca)];
    if (input.state_of(one.bdf).iommu_domain.starts_with("DMA")) names.push_back(one.name);
  }
  if (names.empty()) return;
  add_fault(report, FindingKind::kIommu, short_list(names),
            "the IOMMU translates the HCA's addresses, which slows GPUDirect RDMA down",
            "boot with iommu=pt, or switch the IOMMU off in the firmware");
}

void check_bars(const CheckInput& input, CheckReport* report) {
  for (const SmallBar& one : small_bars(input.machine(), input.states)) {
    add_fault(report, FindingKind::kBar, gpu_name(input.machine(), one.gpu),
              "its largest BAR " + one.text, kFixOfSmallBar);
  }
}

void check_read_requests(const CheckInput& input, CheckReport* report) {
  const Machine& machine = input.machine();
  const auto rails = rails_by_hca(input.decision().plan);
  int most = 0;
  bool unknown = false;
  for (const auto& [hca, unused] : rails) {
    const int own = input.state_of(machine.hcas[static_cast<size_t>(hca)].bdf).max_read_request;
    most = std::max(most, own);
    unknown = unknown || own == 0;
  }
  std::vector<std::string> moderate;
  for (const auto& [hca, unused] : rails) {
    const auto index = static_cast<size_t>(hca);
    const int own = input.state_of(machine.hcas[index].bdf).max_read_request;
    if (own == 0) continue;
    if (own < most || own < kSmallReadRequest) {
      add_fault(report, FindingKind::kReadRequest, hca_name(machine, index),
                fmt::format("Max_Read_Request_Size is {} bytes, {}", own,
                            own < most ? fmt::format("that of its peers {}", most)
                                       : fmt::format("{} is usual", kGoodReadRequest)),
                "set it in the firmware, or by setpci -s ADDRESS CAP_EXP+8.w=5000:7000");
    } else if (own < kGoodReadRequest) {
      moderate.push_back(machine.hcas[index].name);
    }
  }
  if (!moderate.empty()) {
    report->notes.push_back(
        fmt::format("Max_Read_Request_Size is below the {} bytes that vendors recommend: {}",
                    kGoodReadRequest, short_list(moderate)));
  }
  if (unknown && !input.inspection.sysfs_root.empty()) {
    report->notes.push_back(
        "Max_Read_Request_Size of HCAs is unknown: that takes CAP_SYS_ADMIN to read");
  }
}

}  // namespace

void check_settings(const CheckInput& input, CheckReport* report) {
  check_numa(input.machine(), report);
  check_iommu(input, report);
  check_bars(input, report);
  check_read_requests(input, report);
  if (input.inspection.sysfs_root.empty()) {
    report->notes.push_back(
        "ACS, IOMMU, BARs and read requests are not checked: they are visible on the machine only");
  }
}

void check_diagnostics(const CheckInput& input, CheckReport* report) {
  for (const Finding& finding : input.decision().findings) {
    // check_ports() judges slow links with more care.
    if (!input.machine().gpus.empty() && finding.kind == FindingKind::kSlowLink) continue;
    if (finding.severity != Severity::kInfo) {
      report->faults.push_back(finding);
    } else {
      report->notes.push_back(to_string(finding));
    }
  }
}

}  // namespace gdr::tools::topo
