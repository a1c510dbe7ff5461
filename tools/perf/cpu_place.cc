#include "tools/perf/cpu_place.h"

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

// The first allowed CPU from `from` upwards, around the end, that is not taken; -1 for none.
int next_free(const CpuSeat& seat, const std::set<int>& taken) {
  auto start = std::lower_bound(seat.allowed.begin(), seat.allowed.end(), seat.cpu);
  std::vector<int> order(start, seat.allowed.end());
  order.insert(order.end(), seat.allowed.begin(), start);
  auto found =
      std::find_if(order.begin(), order.end(), [&](int cpu) { return taken.count(cpu) == 0; });
  return found == order.end() ? -1 : *found;
}
}  // namespace

int choose_cpu(const std::vector<CpuSeat>& seats, size_t rank) {
  std::set<int> taken;
  int mine = -1;
  for (size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].host != seats[rank].host) continue;
    int cpu = next_free(seats[i], taken);
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
  std::vector<CpuSeat> seats;
  for (const std::string& text : *all) {
    nlohmann::json seat = nlohmann::json::parse(text);
    seats.push_back({seat[0], seat[1], seat[2]});
  }
  return choose_cpu(seats, static_cast<size_t>(rank.rank()));
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
