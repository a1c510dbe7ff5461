// NVLink and NVLink-C2C: every GPU against its peers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr std::array<const char*, 3> kTargets = {"GPUs", "NVSwitches", "the CPU"};

// The number of a GPU's NVLinks by kind of target; -1 where it is unknown.
std::array<int, 3> link_counts(const Gpu& gpu) {
  std::array<int, 3> counts = {0, 0, 0};
  for (const NvLink& link : gpu.nvlinks) {
    int& count = counts[static_cast<size_t>(link.to)];
    count = link.count == 0 || count < 0 ? -1 : count + link.count;
  }
  return counts;
}

// Whether the GPUs should have the same links: those of one chip, whoever made their boards.
bool are_peer_gpus(const Gpu& a, const Gpu& b) {
  return a.ids.vendor == b.ids.vendor && a.ids.device == b.ids.device && a.model == b.model;
}

// Returns the peers of `gpu` for which count(peer) equals `value`: "GPU0 has", "GPU0, GPU1 have".
template <class Count>
std::string peers_with(const Machine& machine, size_t gpu, int value, Count&& count) {
  std::vector<std::string> names;
  for (size_t other = 0; other < machine.gpus.size(); ++other) {
    if (!are_peer_gpus(machine.gpus[gpu], machine.gpus[other])) continue;
    if (count(machine.gpus[other]) == value) names.push_back(gpu_label(other));
  }
  return short_list(names) + (names.size() == 1 ? " has" : " have");
}

template <class Count>
int most_of_peers(const Machine& machine, size_t gpu, Count&& count) {
  int most = 0;
  for (const Gpu& other : machine.gpus) {
    if (are_peer_gpus(machine.gpus[gpu], other)) most = std::max(most, count(other));
  }
  return most;
}

// A link between two GPUs is down at both ends, of which one may be that of a GPU that is whole.
constexpr char kLookAtLinks[] =
    "look at nvidia-smi nvlink -s and the kernel's log (Xid 74), reseat a bridge, reset or replace "
    "the GPU, of several that have links to each other first the one with the fewest";

// The number of NVLinks that a GPU has to another one.
int links_between(const Gpu& from, const Gpu& to) {
  int count = 0;
  for (const NvLink& link : from.nvlinks) {
    if (link.to == NvLink::To::kGpu && link.gpu == to.bdf) count += link.count;
  }
  return count;
}

// Whether more than half of all pairs of the GPU's peers have as many NVLinks as any pair has. A
// mesh like that is even by design.
bool has_even_mesh(const Machine& machine, size_t gpu) {
  std::map<int, size_t> pairs_by_count;
  size_t pairs = 0;
  for (size_t one = 0; one < machine.gpus.size(); ++one) {
    if (!are_peer_gpus(machine.gpus[gpu], machine.gpus[one])) continue;
    for (size_t two = one + 1; two < machine.gpus.size(); ++two) {
      if (!are_peer_gpus(machine.gpus[gpu], machine.gpus[two])) continue;
      ++pairs_by_count[links_between(machine.gpus[one], machine.gpus[two])];
      ++pairs;
    }
  }
  return pairs > 0 && 2 * pairs_by_count.rbegin()->second > pairs;
}

// Whether each of the GPU's peers has links to one GPU at most: bridges that join pairs. Those of a
// machine are alike.
bool has_bridged_pairs(const Machine& machine, size_t gpu) {
  return std::all_of(machine.gpus.begin(), machine.gpus.end(), [&](const Gpu& other) {
    if (!are_peer_gpus(machine.gpus[gpu], other)) return true;
    std::set<std::optional<Bdf>> targets;
    for (const NvLink& link : other.nvlinks) {
      if (link.to == NvLink::To::kGpu) targets.insert(link.gpu);
    }
    return targets.size() <= 1;
  });
}

// Whether few GPUs have as few links as this one, so that the design cannot be the cause. An
// NVSwitch and a CPU have as many links to each GPU, and so have bridges of pairs; a mesh of GPUs
// may give half of them more.
template <class Count>
bool is_out_of_line(const Machine& machine, size_t gpu, size_t kind, Count&& count) {
  if (kind != static_cast<size_t>(NvLink::To::kGpu)) return true;
  size_t peers = 0, with_as_few = 0;
  for (const Gpu& other : machine.gpus) {
    if (!are_peer_gpus(machine.gpus[gpu], other)) continue;
    ++peers;
    if (count(other) <= count(machine.gpus[gpu])) ++with_as_few;
  }
  return peers == 2 || 2 * with_as_few < peers || has_even_mesh(machine, gpu) ||
         has_bridged_pairs(machine, gpu);
}

// Adds the GPU if it has fewer links than its peers.
void check_nvlink_counts(const Machine& machine, size_t gpu, Findings* found) {
  for (size_t kind = 0; kind < kTargets.size(); ++kind) {
    auto count = [kind](const Gpu& one) { return link_counts(one)[kind]; };
    const int own = count(machine.gpus[gpu]), most = most_of_peers(machine, gpu, count);
    if (own < 0 || own >= most || !is_out_of_line(machine, gpu, kind, count)) continue;
    found->push_back(
        {FindingKind::kNvlink, Severity::kWarning, gpu_name(machine, gpu),
         fmt::format("{} NVLinks to {}, where {} {}", own == 0 ? "no" : std::to_string(own),
                     kTargets[kind], peers_with(machine, gpu, most, count), most),
         kLookAtLinks});
  }
}

// NVLinks between two GPUs are seen by both.
void check_nvlink_targets(const Machine& machine, size_t gpu, Findings* found) {
  const Gpu& one = machine.gpus[gpu];
  for (const NvLink& link : one.nvlinks) {
    if (link.to != NvLink::To::kGpu || !link.gpu.has_value()) continue;
    for (size_t other = 0; other < machine.gpus.size(); ++other) {
      const Gpu& target = machine.gpus[other];
      if (target.bdf != *link.gpu || target.partition > 0) continue;
      auto back = std::find_if(
          target.nvlinks.begin(), target.nvlinks.end(),
          [&](const NvLink& two) { return two.to == NvLink::To::kGpu && two.gpu == one.bdf; });
      const int returned = back == target.nvlinks.end() ? 0 : back->count;
      const bool unknown = link.count == 0 || (back != target.nvlinks.end() && returned == 0);
      if (unknown || returned >= link.count) continue;
      found->push_back(
          {FindingKind::kNvlink, Severity::kWarning, gpu_name(machine, other),
           fmt::format("{} NVLinks to {}, which has {} to it",
                       returned == 0 ? "no" : std::to_string(returned), gpu_label(gpu), link.count),
           kLookAtLinks});
    }
  }
}

// GPUs that others have NVLinks to, and that the machine does not show. A file of several hosts may
// show those of one.
void check_missing_targets(const Machine& machine, Findings* found) {
  if (machine.hosts > 1) return;
  std::map<Bdf, std::vector<std::string>> linked;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (const NvLink& link : machine.gpus[gpu].nvlinks) {
      if (link.to != NvLink::To::kGpu || !link.gpu.has_value()) continue;
      const bool shown = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                     [&](const Gpu& other) { return other.bdf == *link.gpu; });
      if (!shown) linked[*link.gpu].push_back(gpu_label(gpu));
    }
  }
  for (const auto& [target, gpus] : linked) {
    found->push_back(
        {FindingKind::kNvlink, Severity::kWarning, target.to_string(),
         fmt::format("the machine shows no GPU there, to which {} {} NVLinks", short_list(gpus),
                     gpus.size() == 1 ? "has" : "have"),
         "look at lspci, nvidia-smi -L and the kernel's log (Xid 79) for a GPU that is lost; a "
         "file that NCCL wrote in a job lists the job's GPUs only"});
  }
}

void check_c2c(const Machine& machine, size_t gpu, Findings* found) {
  auto count = [](const Gpu& one) { return one.c2c_links; };
  const int own = count(machine.gpus[gpu]), most = most_of_peers(machine, gpu, count);
  if (own >= most) return;
  found->push_back({FindingKind::kC2c, Severity::kWarning, gpu_name(machine, gpu),
                    fmt::format("{} NVLink-C2C links to its CPU, where {} {}",
                                own == 0 ? "no" : std::to_string(own),
                                peers_with(machine, gpu, most, count), most),
                    "look at nvidia-smi c2c -s, then power-cycle the node or replace the module"});
}

bool has_nvlink(const topology::Gpu& gpu) { return !gpu.nvlinks.empty() || gpu.c2c_links > 0; }

}  // namespace

void judge_nvlinks(const Host& host, Findings* found) {
  const Machine& machine = machine_of(host);
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const Gpu& one = machine.gpus[gpu];
    if (!machine.gpu_links_known && one.nvlinks.empty() && one.c2c_links == 0) continue;
    check_nvlink_counts(machine, gpu, found);
    check_nvlink_targets(machine, gpu, found);
    check_c2c(machine, gpu, found);
  }
  check_missing_targets(machine, found);
}

Observations run_nvlink(const Host& host) {
  const Machine& machine = machine_of(host);
  if (machine.gpus.empty())
    return {nothing_on(host, "there is no GPU, whose NVLinks could be looked at")};
  Observations seen = findings_of(host, check_named("nvlink").kinds);
  if (!seen.empty()) return seen;
  const auto linked = std::count_if(machine.gpus.begin(), machine.gpus.end(), has_nvlink);
  if (!machine.gpu_links_known) {
    return {
        unknown("",
                fmt::format("NVLinks of {} of {} GPUs are unknown",
                            machine.gpus.size() - static_cast<size_t>(linked), machine.gpus.size()),
                needs_nvml(host))};
  }
  if (linked == 0) return {ok("", "no GPU has NVLinks (NVML)")};
  return {ok("", fmt::format("{} of {} GPUs have NVLinks that are up, and none has fewer than its "
                             "peers (NVML)",
                             linked, machine.gpus.size()))};
}

}  // namespace gdr::tools::doctor
