// Gives each polling rank of a host a CPU of its own while it is measured. Left alone, a scheduler
// may keep two pollers on one CPU for seconds while another idles.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct CpuSeat {
  std::string host;
  int cpu = -1;              // where the rank runs now
  std::vector<int> allowed;  // in ascending order
};

// The CPU for seats[rank]: its present one if no lower rank of the host has it, else the next free
// one upwards; -1 when there are not enough for all ranks of the host. The same answer everywhere.
int choose_cpu(const std::vector<CpuSeat>& seats, size_t rank);

// All ranks call this together; -1 as above.
Result<int> agree_on_cpu(Rank& rank);

// Keeps the calling thread on one CPU; threads made before go where they like. cpu -1: does
// nothing.
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
