#include "tools/doctor/burn_in.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/finding.h"
#include "tools/doctor/cuda_number.h"
#include "tools/doctor/host.h"
#include "tools/topo/labels.h"
#include "topology/cpu_mask.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kHostMemory[] = "HOST";

std::string path_for_burn_in(const topology::RailDecision& decision, size_t gpu, size_t hca) {
  return topology::to_string(topology::path_between(decision, gpu, hca));
}

// A class without a share, as one that NCCL adds, is taken for the slowest.
double share_of(const BurnInShares& shares, const std::string& path) {
  const auto found = shares.find(path);
  return found == shares.end() ? shares.at("SYS") : found->second;
}

Check burn_in_check() {
  return {.name = "burn-in",
          .looks_at = "the bandwidth and latency of each rail, with host and GPU memory",
          .why =
              "A path below its class has a fault that settings do not show: a cable, a link "
              "that trained down, peer-to-peer traffic that takes the CPU's root complex.",
          .cost = Cost::kHalves,
          .run = nullptr};
}

// The texts of errors may end in ". Fix: ...".
Observation not_measured(const std::string& subject, const Error& error) {
  const Finding parts = split_fix(error.text);
  if (error.code == Code::kRemote) {
    return failure(subject, parts.text,
                   !parts.fix.empty()
                       ? parts.fix
                       : "run nccl-gdr conformance, and nccl-gdr doctor on both machines");
  }
  return unknown(subject, "it was not measured: " + parts.text,
                 !parts.fix.empty() ? parts.fix : "remove what the error says and run it again");
}

std::vector<int> cpus_near(const topology::Machine& machine, const topology::Hca& hca) {
  if (hca.at.numa < 0 || hca.at.numa >= static_cast<int>(machine.numa_nodes.size())) return {};
  return topology::cpus_in(machine.numa_nodes[static_cast<size_t>(hca.at.numa)].cpus)
      .value_or(std::vector<int>());
}

std::string measured_text(const BurnInMeasurement& measured) {
  const std::string latency =
      measured.latency_us > 0 ? fmt::format("{:.1f} us", measured.latency_us) : "latency unknown";
  return fmt::format("{:.1f} Gb/s, {} by {}", measured.gbits, latency, measured.by);
}

}  // namespace

const BurnInShares& default_burn_in_shares() {
  static const BurnInShares shares = {{kHostMemory, 0.9}, {"C2C", 0.9}, {"P2C", 0.9}, {"PIX", 0.9},
                                      {"PXB", 0.9},       {"PHB", 0.8}, {"SYS", 0.3}};
  return shares;
}

Result<BurnInShares> parse_burn_in_shares(const std::string& text) {
  BurnInShares shares = default_burn_in_shares();
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    const std::string path = part.substr(0, equals);
    const std::string number = equals == std::string::npos ? "" : part.substr(equals + 1);
    char* end = nullptr;
    const double percent = std::strtod(number.c_str(), &end);
    if (!shares.contains(path)) {
      return fail(Code::kInvalidArgument,
                  "\"" + part +
                      "\" names no class of a path. Fix: HOST, C2C, P2C, PIX, PXB, PHB or "
                      "SYS, as in PIX=90,SYS=30");
    }
    if (number.empty() || *end != '\0' || !(percent >= 1 && percent <= 100)) {
      return fail(Code::kInvalidArgument,
                  "\"" + part + "\" has no share in percent. Fix: a number from 1 to 100");
    }
    shares[path] = percent / 100;
  }
  return shares;
}

std::vector<BurnInCase> burn_in_cases(const topology::RailDecision& decision,
                                      const BurnInShares& shares, const GpuFacts& gpus) {
  std::vector<BurnInCase> cases;
  int device = 0;
  for (size_t i = 0; i < decision.plan.rails.size(); ++i) {
    const topology::Rail& rail = decision.plan.rails[i];
    if (!rail.usable) continue;
    const topology::Hca& hca = decision.machine.hcas[static_cast<size_t>(rail.port.hca)];
    const topology::Port& port = topology::port_of(decision.machine, rail.port);
    const std::string name = fmt::format("rail {} {}:{}", rail.id, hca.name, port.number);
    const double gbits = (port.link_mbps > 0 ? port.link_mbps : port.speed_mbps) / 1e3;
    BurnInCase one{.subject = name + " host memory",
                   .hca = hca.name,
                   .port = port.number,
                   .device = device,
                   .gpu = {},
                   .gpu_address = {},
                   .cuda_number = {},
                   .path = kHostMemory,
                   .port_gbits = gbits,
                   .share = share_of(shares, kHostMemory),
                   .cpus = cpus_near(decision.machine, hca)};
    cases.push_back(one);
    for (size_t gpu = 0; gpu < decision.plan.gpus.size(); ++gpu) {
      const std::vector<int>& own = decision.plan.gpus[gpu].rails;
      if (own.empty() || own[0] != static_cast<int>(i)) continue;
      one.path = path_for_burn_in(decision, gpu, static_cast<size_t>(rail.port.hca));
      one.subject = fmt::format("{} GPU{} ({})", name, gpu, one.path);
      one.gpu = gpu;
      one.gpu_address = decision.machine.gpus[gpu].bdf.to_string();
      one.cuda_number = cuda_number(gpus, one.gpu_address);
      one.share = share_of(shares, one.path);
      cases.push_back(one);
    }
    ++device;
  }
  return cases;
}

Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured) {
  const std::string seen = measured_text(measured);
  if (one.port_gbits <= 0) {
    return unknown(one.subject, seen + "; the rate of the port is unknown",
                   "compare with other rails and machines");
  }
  const double share = measured.gbits / one.port_gbits;
  const std::string evidence =
      fmt::format("{}: {:.0f} % of the port's {:g} Gb/s, and {:.0f} % are expected ({})", seen,
                  100 * share, one.port_gbits, 100 * one.share, one.path);
  if (share >= one.share) return ok(one.subject, evidence);
  return failure(one.subject, evidence,
                 "look at what nccl-gdr doctor finds on this path first (ACS, PCIe link, IOMMU, "
                 "GPUDirect); where other rails are as slow, that is the limit of the machine, and "
                 "--burn-in-shares sets it");
}

// The software HCA runs at what the CPU copies, and the rate of its ports means nothing.
bool is_on_software_hca(const Host& host) {
  return !host.libraries.verbs.empty() && host.libraries.verbs.front().is_software_hca;
}

Observation measured_by_software(const BurnInCase& one, const BurnInMeasurement& measured) {
  return unknown(one.subject, measured_text(measured) + "; the software HCA has no rate of its own",
                 "measure with the libibverbs of the system: take the software HCA out of "
                 "LD_LIBRARY_PATH");
}

Report burn_in(const Host& host, const std::vector<BurnInCase>& cases,
               const MeasureBurnIn& measure) {
  Report report;
  report.host = topo::clean_text(host.line("/proc/sys/kernel/hostname"));
  report.is_root = geteuid() == 0;
  CheckResult result{burn_in_check(), {}};
  for (const BurnInCase& one : cases) {
    const Result<BurnInMeasurement> measured = measure(one);
    if (measured && is_on_software_hca(host)) {
      result.observations.push_back(measured_by_software(one, *measured));
    } else if (measured) {
      result.observations.push_back(judge_burn_in(one, *measured));
    } else {
      result.observations.push_back(not_measured(one.subject, measured.error()));
    }
    if (!measured && measured.error().code == Code::kInvalidUsage) {
      if (&one == &cases.back()) break;
      result.observations.push_back(unknown("", "the other rails were not measured",
                                            "start the same command again on both machines"));
      break;
    }
  }
  if (cases.empty()) {
    result.observations.push_back(unknown(
        "", host.inspection_error.empty() ? "there is no usable rail" : host.inspection_error,
        "nccl-gdr doctor and nccl-gdr topo say why"));
  }
  report.results.push_back(std::move(result));
  return report;
}

}  // namespace gdr::tools::doctor
