// The bandwidths that NCCL assumes of links, in 10^9 bytes per second (src/graph/topo.h and topo.cc
// of NCCL). Where the machine's source does not state a speed, it is assumed, and a sentence says
// so; a machine from a NCCL topology file or from sysfs gets what NCCL takes for a missing value.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/rules.h"
#include "topology/ports.h"

namespace gdr::topology::nccl {

// Links inside a device, and those that NCCL takes to be no limit.
inline constexpr float kLocalBandwidth = 5000.0F;
// Between the partitions of one GPU.
inline constexpr float kPartitionBandwidth = 2618.0F;

class Bandwidths {
 public:
  Bandwidths(const Machine& machine, const std::vector<PortRef>& devices, const Rules& rules);

  float pcie(const PciLink& link);
  float nvlink(const Gpu& gpu, const NvLink& link);
  float c2c(const Gpu& gpu);
  float device(PortRef port);
  float between_cpus();

  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  // Whether NCCL has the same values, and its defaults in place of those that are missing.
  bool nccl_has_this_source() const;
  float device_where_unknown();
  void assume(const std::string& sentence);

  const Machine& machine_;
  const std::vector<PortRef>& devices_;
  const Rules& rules_;
  std::vector<std::string> assumptions_;
};

}  // namespace gdr::topology::nccl
