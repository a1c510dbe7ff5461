#include "tools/doctor/burn_in_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tools/doctor/cuda_number.h"
#include "tools/doctor/host.h"
#include "tools/topo/hca_list.h"
#include "topology/cpu_mask.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kHostMemory[] = "HOST";

struct BurnInRail {
  BurnInEnd host_memory;
  std::vector<BurnInEnd> gpus;
};

// A class without a share, as one that NCCL adds, is taken for the slowest.
double share_of(const BurnInShares& shares, const std::string& path) {
  const auto found = shares.find(path);
  return found == shares.end() ? shares.at("SYS") : found->second;
}

std::vector<int> cpus_near(const topology::Machine& machine, const topology::Hca& hca) {
  if (hca.at.numa < 0 || hca.at.numa >= static_cast<int>(machine.numa_nodes.size())) return {};
  return topology::cpus_in(machine.numa_nodes[static_cast<size_t>(hca.at.numa)].cpus)
      .value_or(std::vector<int>());
}

// The subnet prefix of an InfiniBand port, which is the upper half of its first GID; "": unknown.
std::string subnet_prefix(const RdmaPorts& ports, const std::string& hca_name, int number) {
  for (const RdmaHca& hca : ports.hcas) {
    if (hca.name != hca_name) continue;
    for (const RdmaPort& port : hca.ports) {
      if (port.number != number) continue;
      for (const RdmaGid& gid : port.gids) {
        if (gid.entry.index != 0) continue;
        std::string prefix;
        for (size_t i = 0; i < 8; ++i) prefix += fmt::format("{:02x}", gid.entry.gid[i]);
        return prefix;
      }
    }
  }
  return "";
}

// Ports of different subnets of InfiniBand, or of different link layers, do not reach each other.
// IP subnets say nothing of it: RoCE is often routed.
std::string fabric_of(const Host& host, const topology::Hca& hca, const topology::Port& port) {
  using LinkLayer = topology::Port::LinkLayer;
  if (port.link_layer == LinkLayer::kEthernet) return "Ethernet";
  if (port.link_layer == LinkLayer::kUnknown) return "";
  const std::string prefix = subnet_prefix(host.ports, hca.name, port.number);
  return prefix.empty() ? "InfiniBand" : "InfiniBand, subnet " + prefix;
}

std::vector<BurnInRail> burn_in_rails(const Host& host, const BurnInShares& shares) {
  std::vector<BurnInRail> rails;
  if (!host.inspection) return rails;
  const topology::RailDecision& decision = host.inspection->decision;
  for (size_t i = 0; i < decision.plan.rails.size(); ++i) {
    const topology::Rail& rail = decision.plan.rails[i];
    if (!rail.usable) continue;
    const topology::Hca& hca = decision.machine.hcas[static_cast<size_t>(rail.port.hca)];
    const topology::Port& port = topology::port_of(decision.machine, rail.port);
    BurnInEnd end{.rail = fmt::format("rail {} {}:{}", rail.id, hca.name, port.number),
                  .hca = hca.name,
                  .port = port.number,
                  .device = static_cast<int>(rails.size()),
                  .gpu = {},
                  .gpu_address = {},
                  .cuda_number = {},
                  .path = kHostMemory,
                  .port_gbits = (port.link_mbps > 0 ? port.link_mbps : port.speed_mbps) / 1e3,
                  .share = share_of(shares, kHostMemory),
                  .cpus = cpus_near(decision.machine, hca),
                  .fabric = fabric_of(host, hca, port)};
    rails.push_back({end, {}});
    for (size_t gpu = 0; gpu < decision.plan.gpus.size(); ++gpu) {
      const std::vector<int>& own = decision.plan.gpus[gpu].rails;
      if (own.empty() || own[0] != static_cast<int>(i)) continue;
      const auto hca_number = static_cast<size_t>(rail.port.hca);
      end.path = topology::to_string(topology::path_between(decision, gpu, hca_number));
      end.gpu = gpu;
      end.gpu_address = decision.machine.gpus[gpu].bdf.to_string();
      end.cuda_number = cuda_number(host.gpus, end.gpu_address);
      end.share = share_of(shares, end.path);
      rails.back().gpus.push_back(end);
    }
  }
  return rails;
}

// "host memory", "GPU3 (PIX)"
std::string memory_of(const BurnInEnd& end) {
  return end.gpu ? fmt::format("GPU{} ({})", *end.gpu, end.path) : "host memory";
}

BurnInCase pair_of(const BurnInEnd& sender, const BurnInEnd& receiver) {
  const bool is_plain = !sender.gpu && !receiver.gpu;
  const std::string subject = is_plain
                                  ? fmt::format("{} to {}, host memory", sender.rail, receiver.rail)
                                  : fmt::format("{} {} to {} {}", sender.rail, memory_of(sender),
                                                receiver.rail, memory_of(receiver));
  return {.subject = subject, .end = sender, .receiver = receiver};
}

BurnInCase loopback_of(const BurnInEnd& end) {
  const std::string subject = end.gpu ? fmt::format("{} {} to itself", end.rail, memory_of(end))
                                      : end.rail + " to itself, host memory";
  return {.subject = subject, .end = end};
}

template <class CaseOf>
std::vector<BurnInCase> case_for_each_end(const std::vector<BurnInRail>& rails, CaseOf case_of) {
  std::vector<BurnInCase> cases;
  for (const BurnInRail& rail : rails) {
    cases.push_back(case_of(rail.host_memory));
    for (const BurnInEnd& gpu : rail.gpus) cases.push_back(case_of(gpu));
  }
  return cases;
}

// The GPU of a rail that takes part in the pair's measurement `i`.
const BurnInEnd& end_for(const BurnInRail& rail, size_t i) {
  return rail.gpus.empty() ? rail.host_memory : rail.gpus[i % rail.gpus.size()];
}

void add_pair(const BurnInRail& sender, const BurnInRail& receiver,
              std::vector<BurnInCase>* cases) {
  cases->push_back(pair_of(sender.host_memory, receiver.host_memory));
  for (size_t i = 0; i < std::max(sender.gpus.size(), receiver.gpus.size()); ++i) {
    cases->push_back(pair_of(end_for(sender, i), end_for(receiver, i)));
  }
}

bool are_in_one_fabric(const BurnInRail& one, const BurnInRail& other) {
  return one.host_memory.fabric == other.host_memory.fabric;
}

// " (NCCL_IB_HCA leaves out mlx5_1:1)"; "" where it leaves out nothing.
std::string left_out_by_list(const Host& host) {
  std::string ports;
  for (const std::string& reason : host.inspection->not_offered) {
    if (!topo::is_excluded_by_list(reason)) continue;
    ports += (ports.empty() ? "" : ", ") + reason.substr(0, reason.find(' '));
  }
  return ports.empty() ? "" : " (NCCL_IB_HCA leaves out " + ports + ")";
}

// `rails`: the number of usable ones of the machine.
void add_rail_alone(const Host& host, const BurnInRail& rail, size_t rails,
                    std::vector<BurnInCase>* cases) {
  const std::string& fabric = rail.host_memory.fabric;
  const std::string why = rails == 1 ? "this machine has no other usable rail"
                                     : "no other usable rail is in its fabric (" +
                                           (fabric.empty() ? "unknown" : fabric) + ")";
  for (BurnInCase& one : case_for_each_end({rail}, loopback_of)) {
    one.note = "without the cable, as " + why + left_out_by_list(host);
    cases->push_back(std::move(one));
  }
}

}  // namespace

bool uses_gpu(const BurnInCase& one) {
  return one.end.gpu.has_value() || (one.receiver && one.receiver->gpu.has_value());
}

const BurnInShares& default_burn_in_shares() {
  static const BurnInShares shares = {{kHostMemory, 0.9}, {"C2C", 0.9}, {"P2C", 0.9}, {"PIX", 0.9},
                                      {"PXB", 0.9},       {"PHB", 0.8}, {"SYS", 0.3}};
  return shares;
}

Result<BurnInShares> parse_burn_in_shares(const std::string& text) {
  if (text.empty()) {
    return fail(Code::kInvalidArgument, "it has no share. Fix: one or more, as in PIX=90,SYS=30");
  }
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

std::vector<BurnInCase> cases_with_other_machine(const Host& host, const BurnInShares& shares) {
  return case_for_each_end(burn_in_rails(host, shares), [](const BurnInEnd& end) {
    return BurnInCase{.subject = end.rail + " " + memory_of(end), .end = end};
  });
}

std::vector<BurnInCase> cases_of_loopback(const Host& host, const BurnInShares& shares) {
  return case_for_each_end(burn_in_rails(host, shares), loopback_of);
}

std::vector<BurnInCase> cases_of_ring(const Host& host, const BurnInShares& shares) {
  const std::vector<BurnInRail> rails = burn_in_rails(host, shares);
  std::vector<BurnInCase> cases;
  for (size_t i = 0; i < rails.size(); ++i) {
    size_t next = (i + 1) % rails.size();
    while (!are_in_one_fabric(rails[next], rails[i])) next = (next + 1) % rails.size();
    if (next == i) {
      add_rail_alone(host, rails[i], rails.size(), &cases);
    } else {
      add_pair(rails[i], rails[next], &cases);
    }
  }
  return cases;
}

BurnInCase to_itself(const BurnInCase& one) { return loopback_of(one.end); }

}  // namespace gdr::tools::doctor
