#include "tools/perf/cpu_affinity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/common/nccl_logger.h"

namespace gdr::tools {
namespace {
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Returns the first allowed CPU that is not taken, from the rank's present one upwards and on from
// the lowest; -1 if there is none.
int next_free(const CpuAffinity& rank, const std::set<int>& taken) {
  auto start = std::lower_bound(rank.allowed.begin(), rank.allowed.end(), rank.cpu);
  std::vector<int> order(start, rank.allowed.end());
  order.insert(order.end(), rank.allowed.begin(), start);
  auto found =
      std::find_if(order.begin(), order.end(), [&](int cpu) { return taken.count(cpu) == 0; });
  return found == order.end() ? -1 : *found;
}
}  // namespace

int choose_cpu(const std::vector<CpuAffinity>& ranks, size_t rank) {
  std::set<int> taken;
  int mine = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].host != ranks[rank].host) continue;
    int cpu = next_free(ranks[i], taken);
    if (cpu < 0) return -1;
    taken.insert(cpu);
    if (i == rank) mine = cpu;
  }
  return mine;
}

Result<int> agree_on_cpu(Rank& rank) {
  nlohmann::json mine = {host_name(), sched_getcpu(), allowed_cpus()};
  auto all = rank.allgather("choice of CPUs", mine.dump());
  if (!all) return forward_error(all);
  std::vector<CpuAffinity> ranks;
  for (const std::string& text : *all) {
    nlohmann::json one = nlohmann::json::parse(text);
    ranks.push_back({one[0], one[1], one[2]});
  }
  return choose_cpu(ranks, static_cast<size_t>(rank.rank()));
}

CpuPin::CpuPin(int cpu) {
  if (cpu < 0 || sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pinned_ = sched_setaffinity(0, sizeof(one), &one) == 0;
}

CpuPin::~CpuPin() {
  if (pinned_) sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace gdr::tools
