#include "tools/doctor/burn_in.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kHostMemory[] = "HOST";
constexpr char kBurnInBytes[] = "4M";
constexpr char kBurnInFactor[] = "524288";  // from 8 B to 4 MiB in one step

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

Observation not_measured(const BurnInCase& one, const Error& error) {
  if (error.code == Code::kRemote) {
    return failure(one.subject, error.text,
                   "run nccl-gdr conformance, and nccl-gdr doctor on both machines");
  }
  return unknown(one.subject, "it was not measured: " + error.text,
                 "remove what the error says and run it again");
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
                                      const BurnInShares& shares) {
  std::vector<BurnInCase> cases;
  int device = 0;
  for (size_t i = 0; i < decision.plan.rails.size(); ++i) {
    const topology::Rail& rail = decision.plan.rails[i];
    if (!rail.usable) continue;
    const topology::Hca& hca = decision.machine.hcas[static_cast<size_t>(rail.port.hca)];
    const topology::Port& port = topology::port_of(decision.machine, rail.port);
    const std::string name = fmt::format("rail {} {}:{}", rail.id, hca.name, port.number);
    const double gbits = (port.link_mbps > 0 ? port.link_mbps : port.speed_mbps) / 1e3;
    cases.push_back({name + " host memory",
                     hca.name,
                     device,
                     {},
                     kHostMemory,
                     gbits,
                     share_of(shares, kHostMemory)});
    for (size_t gpu = 0; gpu < decision.plan.gpus.size(); ++gpu) {
      const std::vector<int>& own = decision.plan.gpus[gpu].rails;
      if (own.empty() || own[0] != static_cast<int>(i)) continue;
      const std::string path = path_for_burn_in(decision, gpu, static_cast<size_t>(rail.port.hca));
      cases.push_back({fmt::format("{} GPU{} ({})", name, gpu, path), hca.name, device, gpu, path,
                       gbits, share_of(shares, path)});
    }
    ++device;
  }
  return cases;
}

std::vector<std::string> burn_in_arguments(const BurnInCase& one, const BurnInPeer& peer,
                                           size_t number, const std::string& json_file) {
  std::vector<std::string> arguments = {
      "perf",      "sendrecv",
      "--dev",     std::to_string(one.device),
      "--memory",  one.gpu ? fmt::format("cuda:{}", *one.gpu) : "host",
      "-b",        "8",
      "-e",        kBurnInBytes,
      "-f",        kBurnInFactor,
      "--timeout", std::to_string(kBurnInPatienceSeconds),
      "--json",    json_file};
  if (peer.is_local) return arguments;
  const std::string root = fmt::format("{}:{}", peer.address, peer.port + static_cast<int>(number));
  arguments.insert(arguments.end(), {"--root", root, "--rank", std::to_string(peer.rank)});
  return arguments;
}

Result<BurnInMeasurement> parse_burn_in(const BurnInCase& one, const std::string& json) {
  try {
    const auto report = nlohmann::json::parse(json);
    const std::string name =
        report.at("devices").at(static_cast<size_t>(one.device)).at("name").get<std::string>();
    if (name.substr(0, name.find(':')) != one.hca) {
      return fail(Code::kInternal, fmt::format("device {} of the plugin is {} and not {}",
                                               one.device, name, one.hca));
    }
    const auto& rows = report.at("bandwidth");  // at() throws where there is none
    const double mib_s = rows.at(rows.size() - 1).at("average_mib_s").get<double>();
    const double latency = report.at("latency").at(0).at("typical_us").get<double>();
    return BurnInMeasurement{mib_s * 8 * (1 << 20) / 1e9, latency};
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInternal, std::string("the result cannot be read: ") + error.what());
  }
}

Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured) {
  const std::string seen =
      fmt::format("{:.1f} Gb/s, {:.1f} us", measured.gbits, measured.latency_us);
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
  return unknown(one.subject,
                 fmt::format("{:.1f} Gb/s, {:.1f} us; the software HCA has no rate of its own",
                             measured.gbits, measured.latency_us),
                 "measure with the libibverbs of the system: take the software HCA out of "
                 "LD_LIBRARY_PATH");
}

Report burn_in(const Host& host, const BurnInShares& shares, bool judges,
               const MeasureBurnIn& measure) {
  Report report;
  report.host = topo::clean_text(host.line("/proc/sys/kernel/hostname"));
  report.is_root = geteuid() == 0;
  CheckResult result{burn_in_check(), {}};
  std::vector<BurnInCase> cases;
  if (host.inspection.has_value()) cases = burn_in_cases(host.inspection->decision, shares);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Result<BurnInMeasurement> measured = measure(cases[i], i);
    if (!measured && measured.error().code == Code::kInvalidUsage) {
      result.observations.push_back(
          unknown(cases[i].subject, measured.error().text + "; the other rails were not measured",
                  "start the same command on the other machine"));
      break;
    }
    if (!measured) {
      result.observations.push_back(not_measured(cases[i], measured.error()));
    } else if (is_on_software_hca(host)) {
      result.observations.push_back(measured_by_software(cases[i], *measured));
    } else if (judges) {
      result.observations.push_back(judge_burn_in(cases[i], *measured));
    } else {
      result.observations.push_back(ok(cases[i].subject, "the other machine has the result"));
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
