// How far each GPU is from its own rail, and whether NCCL uses GPUDirect RDMA between them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

// The verdict that keeps a GPU and its own rail from GPUDirect RDMA because they are too far apart;
// nothing where they are not, or where the GPU has no rail.
std::optional<topo::Verdict> out_of_reach(const RailDecision& decision, size_t gpu) {
  const Rail* rail = decision.plan.first_rail_of(gpu);
  if (rail == nullptr) return std::nullopt;
  const auto verdicts = verdicts_between(decision, gpu, static_cast<size_t>(rail->port.hca));
  const topo::Verdict& verdict = verdicts.receive.direct ? verdicts.send : verdicts.receive;
  if (verdict.direct || !verdict.too_far) return std::nullopt;
  return verdict;
}

// Those of the GPUs (indexes in Machine::gpus) that are out of reach.
std::vector<size_t> gpus_out_of_reach(const RailDecision& decision,
                                      const std::vector<size_t>& gpus) {
  std::vector<size_t> far = gpus;
  std::erase_if(far, [&](size_t gpu) { return !out_of_reach(decision, gpu).has_value(); });
  return far;
}

std::vector<size_t> gpus_out_of_reach(const RailDecision& decision) {
  std::vector<size_t> all(decision.machine.gpus.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return gpus_out_of_reach(decision, all);
}

enum class Setting { kNone, kC2c, kUnsetLevel, kLevel };

// A setting that lets NCCL use GPUDirect RDMA between GPUs and rails that are too far apart for it.
struct ReachRemedy {
  Setting setting = Setting::kNone;
  std::string line;  // for a shell: "export NCCL_NET_GDR_LEVEL=PHB"; "" for kNone and kUnsetLevel
  // Whether it is worth a try. Across NUMA nodes GPUDirect RDMA is mostly slower than host memory.
  bool advised = false;
};

// Returns the first setting with which, by the prediction, all of the GPUs (indexes in
// Machine::gpus) have GPUDirect RDMA with their own rails: NCCL_NET_GDR_C2C, a level that is not
// set, or the level of the longest of their paths.
ReachRemedy reach_remedy(const RailDecision& decision, const std::vector<size_t>& gpus) {
  const topology::nccl::Settings in_force = decision.prediction.settings();
  auto reaches_all = [&](const topology::nccl::Settings& settings) {
    RailDecision changed = decision;
    changed.prediction = topology::predict(changed.machine, changed.plan, settings);
    return gpus_out_of_reach(changed, gpus).empty();
  };
  auto reaches_all_at = [&](std::optional<PathClass> level) {
    topology::nccl::Settings settings = in_force;
    settings.gdr_level = level;
    return reaches_all(settings);
  };
  const auto& all = decision.machine.gpus;
  const bool has_c2c =
      std::any_of(all.begin(), all.end(), [](const Gpu& gpu) { return gpu.c2c_links > 0; });
  topology::nccl::Settings over_c2c = in_force;
  over_c2c.gdr_c2c = true;
  if (has_c2c && reaches_all(over_c2c)) return {Setting::kC2c, "export NCCL_NET_GDR_C2C=1", true};
  if (in_force.gdr_level.has_value() && reaches_all_at(std::nullopt)) {
    return {Setting::kUnsetLevel, "", true};
  }
  PathClass farthest = PathClass::kLoc;
  for (size_t gpu : gpus) farthest = std::max(farthest, decision.plan.gpus[gpu].path);
  for (const PathClass level : {farthest, PathClass::kSys}) {
    if (!reaches_all_at(level)) continue;
    return {Setting::kLevel, std::string("export NCCL_NET_GDR_LEVEL=") + topology::to_string(level),
            level != PathClass::kSys};
  }
  return {};
}

// Whether the NUMA nodes of the GPU and its rail are known.
bool has_known_nodes(const RailDecision& decision, size_t gpu) {
  const Machine& machine = decision.machine;
  const Hca& hca = hca_of(machine, decision.plan.first_rail_of(gpu)->port);
  return !has_unknown_node(machine, machine.gpus[gpu].at) && !has_unknown_node(machine, hca.at);
}

// Where a GPU and its rail meet, in words.
const char* meeting_text(const RailDecision& decision, size_t gpu) {
  switch (decision.plan.gpus[gpu].path) {
    case PathClass::kPhb:
      return "GPU and HCA meet only at the CPU (PHB)";
    case PathClass::kSys:
      return has_known_nodes(decision, gpu) ? "GPU and HCA are on different NUMA nodes (SYS)"
                                            : "the NUMA node of GPU or HCA is unknown (SYS)";
    default:
      return "GPU and HCA are too far apart";
  }
}

// Whether some of the GPUs are far from their rails only by NCCL_IB_HCA or the user's map.
bool is_far_by_choice(const Host& host, const std::vector<size_t>& gpus) {
  if (!host.inspection->unrestricted.has_value()) return false;
  const std::vector<size_t> far = gpus_out_of_reach(*host.inspection->unrestricted);
  return std::any_of(gpus.begin(), gpus.end(), [&](size_t gpu) {
    return std::find(far.begin(), far.end(), gpu) == far.end();
  });
}

std::string fix_of_reach(const Host& host, const Findings& found, const std::vector<size_t>& gpus) {
  const RailDecision& decision = decision_of(host);
  if (is_far_by_choice(host, gpus)) {
    return "unset or correct " + topo::clean_text(host.inspection->restricted_by);
  }
  const PathClass path = decision.plan.gpus[gpus[0]].path;
  const ReachRemedy remedy = reach_remedy(decision, gpus);
  if (remedy.setting == Setting::kNone) {
    return "no setting is known that helps: move an HCA below the GPU's PCIe switch, or to a slot "
           "of its NUMA node";
  }
  if (remedy.setting == Setting::kUnsetLevel) {
    return unset_text(host, topo::kLevelVariable);
  }
  std::string fix = remedy.line;
  if (remedy.setting != Setting::kLevel) return fix;
  if (lacks_devices(host, found)) {
    return "find the HCA that is missing or in the wrong slot, or the link that is slow: nccl-gdr "
           "doctor names them";
  }
  if (!remedy.advised) {
    const bool is_known = std::all_of(gpus.begin(), gpus.end(),
                                      [&](size_t gpu) { return has_known_nodes(decision, gpu); });
    fix = std::string(is_known ? "an HCA on the GPU's NUMA node; "
                               : "state the NUMA node (nccl-gdr doctor --check numa); ") +
          remedy.line + " allows it as it is, mostly slower than host memory";
  } else if (path == PathClass::kPhb) {
    fix += ", and measure both: across some CPUs, host memory is faster";
  }
  if (decision.machine.switches.empty()) {
    fix += "; in a virtual machine, NCCL_TOPO_FILE with the file of its provider";
  }
  return fix;
}

// What becomes of the data of a GPU that is beyond the level to its own rail, which NCCL need not
// use.
const char* consequence_of_reach(const RailDecision& decision, size_t gpu) {
  const std::vector<size_t>& devices = decision.prediction.devices_of_gpu(gpu);
  size_t direct = 0;
  for (size_t device : devices) {
    const topology::nccl::Verdicts verdicts = decision.prediction.verdicts(gpu, device);
    direct += (verdicts.send.direct ? 1 : 0) + (verdicts.receive.direct ? 1 : 0);
  }
  if (direct == 0) return "so that all data is copied through host memory";
  if (direct == 2 * devices.size()) return "but with the HCAs that NCCL uses in its place";
  return "so that a part of the data is copied through host memory";
}

// Whether a setting of the user keeps a GPU from its rail, which without it would be near enough.
// Where a rail is far away by itself NCCL leaves GPUDirect RDMA out for good reason.
bool setting_forbids_reach(const RailDecision& decision, const std::vector<size_t>& far) {
  return std::any_of(far.begin(), far.end(), [&](size_t gpu) {
    const Setting setting = reach_remedy(decision, {gpu}).setting;
    return setting == Setting::kUnsetLevel || setting == Setting::kC2c;
  });
}

// The nearest rail of a GPU that is not usable, and would be nearer than the one it has; null where
// there is none.
const Rail* nearer_unusable_rail(const RailDecision& decision, size_t gpu) {
  const Rail* nearest = nullptr;
  PathClass path = decision.plan.gpus[gpu].path;
  for (const Rail& rail : decision.plan.rails) {
    const auto hca = static_cast<size_t>(rail.port.hca);
    if (rail.usable || decision.paths.gpu_hca(gpu, hca) >= path) continue;
    nearest = &rail;
    path = decision.paths.gpu_hca(gpu, hca);
  }
  return nearest;
}

std::string rail_label(const RailDecision& decision, size_t gpu) {
  return port_label(decision.machine, decision.plan.first_rail_of(gpu)->port);
}

// GPUs that are far from a rail only as long as a nearer one is down. No level is advised for them.
bool has_lost_its_rail(const RailDecision& decision, size_t gpu, Findings* found) {
  const Rail* lost = nearer_unusable_rail(decision, gpu);
  if (lost == nullptr) return false;
  const bool is_down = port_of(decision.machine, lost->port).state == Port::State::kDown;
  found->push_back(
      {FindingKind::kGdrReach, Severity::kWarning, gpu_name(decision.machine, gpu),
       "no GPUDirect RDMA: its nearest port " + port_label(decision.machine, lost->port) + " is " +
           (is_down ? "DOWN" : "not usable") + ", so that it shares " + rail_label(decision, gpu),
       "bring up that port: nccl-gdr doctor --check port-state"});
  return true;
}

// What NCCL does on a rail that is near enough. Without NVLinks it does not let HCAs read GPU
// memory by default (NCCL_NET_GDR_READ), so that the directions may differ.
std::string gpudirect_near_rail(const topo::Verdicts& verdicts) {
  if (verdicts.receive.direct && verdicts.send.direct) {
    return "GPUDirect RDMA: " + to_string(verdicts.receive);
  }
  if (!verdicts.receive.direct && !verdicts.send.direct) {
    return "near enough for GPUDirect RDMA, but NCCL uses none for another reason: " +
           verdicts.receive.reason;
  }
  return "GPUDirect RDMA for receiving: " + to_string(verdicts.receive) +
         "; for sending: " + to_string(verdicts.send);
}

Observation gpu_near_rail(const RailDecision& decision, size_t gpu) {
  const Machine& machine = decision.machine;
  const std::string name = gpu_name(machine, gpu);
  const topology::Rail* rail = decision.plan.first_rail_of(gpu);
  if (rail == nullptr) {
    return unknown(name, "it has no rail", "look at nccl-gdr doctor --check rails");
  }
  const auto hca = static_cast<size_t>(rail->port.hca);
  const char* path = topology::display_name(decision.plan.gpus[gpu].path, machine.gpus[gpu].at,
                                            machine.hcas[hca].at);
  return ok(name,
            fmt::format("its rail is {} at {}; {}", topology::port_label(machine, rail->port), path,
                        gpudirect_near_rail(topology::verdicts_between(decision, gpu, hca))));
}

}  // namespace

// Names GPUs with one reason and consequence together, on every machine, since NCCL says nothing
// when it does without GPUDirect RDMA.
void judge_reach(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  std::vector<size_t> far = gpus_out_of_reach(decision);
  std::erase_if(far, [&](size_t gpu) { return has_lost_its_rail(decision, gpu, found); });
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> gpus_by_reason;
  for (const size_t gpu : far) {
    gpus_by_reason[{out_of_reach(decision, gpu)->reason, consequence_of_reach(decision, gpu)}]
        .push_back(gpu);
  }
  // A setting is the same on the whole machine.
  const Severity severity = setting_forbids_reach(decision, far) || is_far_by_choice(host, far)
                                ? Severity::kError
                                : Severity::kWarning;
  for (const auto& [text, gpus] : gpus_by_reason) {
    const auto& [reason, consequence] = text;
    std::set<std::string> rails;
    for (const size_t gpu : gpus) rails.insert(rail_label(decision, gpu));
    found->push_back({FindingKind::kGdrReach, severity, short_list(gpu_labels(gpus)),
                      "no GPUDirect RDMA with the own rail (" +
                          short_list({rails.begin(), rails.end()}) + "), " + consequence + ": " +
                          meeting_text(decision, gpus[0]) + ", and " + reason,
                      fix_of_reach(host, *found, gpus)});
  }
}

Observations run_gpu_rail_path(const Host& host) {
  if (auto unknown_file = left_out(host, "NCCL_TOPO_FILE")) return {*unknown_file};
  const RailDecision& decision = decision_of(host);
  if (decision.machine.gpus.empty())
    return {nothing_on(host, "there is no GPU that could have a rail")};
  if (decision.machine.hcas.empty())
    return {nothing_on(host, "there is no HCA that could be a rail")};
  const std::vector<size_t> far = gpus_out_of_reach(decision);
  Observations seen = findings_of(host, check_named("gpu-rail-path").kinds);
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const bool is_far = std::find(far.begin(), far.end(), gpu) != far.end();
    if (!is_far) seen.push_back(gpu_near_rail(decision, gpu));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
