// Gives each polling rank of a host a CPU of its own while it is measured. Without this, a
// scheduler may keep two pollers on one CPU for seconds while another CPU is idle.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// One rank's host, the CPU on which it runs now, and its affinity mask.
struct CpuAffinity {
  std::string host;
  int cpu = -1;
  std::vector<int> allowed;  // CPU numbers in ascending order
};

// Chooses the CPU of ranks[rank]: its present one unless a lower rank of the same host has it, else
// the next free one upwards. Returns -1 when the host has too few CPUs for all its ranks. Every
// rank that passes the same list gets a consistent answer.
int choose_cpu(const std::vector<CpuAffinity>& ranks, size_t rank);

// Exchanges affinities and returns this rank's choose_cpu(). All ranks call this together.
Result<int> agree_on_cpu(Rank& rank);

// Pins the calling thread to one CPU until the end of the scope; threads that exist already are not
// affected. Does nothing for cpu -1.
class CpuPin {
 public:
  explicit CpuPin(int cpu);
  ~CpuPin();
  CpuPin(const CpuPin&) = delete;
  CpuPin& operator=(const CpuPin&) = delete;

 private:
  bool pinned_ = false;
  cpu_set_t before_;
};

}  // namespace gdr::tools
