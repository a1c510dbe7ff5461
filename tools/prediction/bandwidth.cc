#include <algorithm>

#include "tools/prediction/graph.h"

namespace gdr::topology::nccl {
namespace {

// No PCIe link of today is faster, and every NVLink-C2C is: with more, NCCL would seem to prefer
// PCIe to C2C.
constexpr float kUnknownPcie = 200.0F;
constexpr int kUnknownC2cMbPerS = 44712;   // what the driver reports on Grace Hopper
constexpr int kUnknownDeviceMbps = 10000;  // NCCL's for a <net> without a speed, and the plugin's
constexpr int kDefaultGeneration = 60;     // NCCL's, for a speed that it does not know
constexpr int kDefaultWidth = 16;

struct Generation {
  double gt_per_s;
  int lane;  // what NCCL counts for one lane, in units of 100 Mb/s
};
constexpr Generation kGenerations[] = {{2.5, 15}, {5, 30},   {8, 60},
                                       {16, 120}, {32, 240}, {64, 480}};

int lane_speed(double gt_per_s) {
  for (const Generation& one : kGenerations) {
    if (one.gt_per_s == gt_per_s) return one.lane;
  }
  return kDefaultGeneration;
}

float of_one_nvlink(int compute_capability, const Rules& rules) {
  if (compute_capability >= 100) return rules.sm100_nvlink;
  if (compute_capability >= 90) return 20.6F;
  if (compute_capability == 86) return 12.0F;
  if (compute_capability >= 60 && compute_capability < 70) return 18.0F;
  return 20.0F;
}

float between_intel_sockets(const Cpu& cpu, const Rules& rules) {
  if (cpu.family != 6 || cpu.model < 0x55) return 6.0F;
  if (!rules.knows_recent_cpus || cpu.model < 0x8f) return 10.0F;
  return cpu.model < 0xcf ? 22.0F : 40.0F;
}

}  // namespace

Bandwidths::Bandwidths(const Machine& machine, const std::vector<PortRef>& devices,
                       const Rules& rules)
    : machine_(machine), devices_(devices), rules_(rules) {}

void Bandwidths::assume(const std::string& sentence) {
  if (std::find(assumptions_.begin(), assumptions_.end(), sentence) != assumptions_.end()) return;
  assumptions_.push_back(sentence);
}

bool Bandwidths::nccl_has_this_source() const { return machine_.nccl_file || machine_.sysfs; }

float Bandwidths::pcie(const PciLink& link) {
  if (link.gt_per_s <= 0 && !nccl_has_this_source()) {
    assume("The speed of some PCIe links is unknown; they are taken to be no limit.");
    return kUnknownPcie;
  }
  const int width = link.width > 0 ? link.width : kDefaultWidth;
  return static_cast<float>(width * lane_speed(link.gt_per_s) / 80.0);
}

float Bandwidths::nvlink(const Gpu& gpu, const NvLink& link) {
  if (link.count <= 0) {
    assume("The number of NVLinks between some GPUs is unknown; one is assumed.");
  }
  return static_cast<float>(std::max(link.count, 1)) *
         of_one_nvlink(gpu.compute_capability, rules_);
}

float Bandwidths::c2c(const Gpu& gpu) {
  int mb_per_s = gpu.c2c_mb_per_s;
  if (mb_per_s <= 0) {
    assume("The bandwidth of NVLink-C2C is unknown; that of Grace Hopper is assumed.");
    mb_per_s = kUnknownC2cMbPerS;
  }
  return static_cast<float>(static_cast<double>(mb_per_s) * gpu.c2c_links / 1000.0);
}

// NCCL prefers the fastest device, so one of unknown speed is taken to be as fast as the fastest.
float Bandwidths::device_where_unknown() {
  int fastest = 0;
  for (PortRef port : devices_) fastest = std::max(fastest, port_of(machine_, port).speed_mbps);
  assume("The speed of some HCA ports is unknown; they are taken to be as fast as the fastest.");
  return fastest > 0 ? static_cast<float>(fastest / 8000.0) : kLocalBandwidth;
}

float Bandwidths::device(PortRef port) {
  const int mbps = port_of(machine_, port).speed_mbps;
  if (mbps > 0) return static_cast<float>(mbps / 8000.0);
  return nccl_has_this_source() ? static_cast<float>(kUnknownDeviceMbps / 8000.0)
                                : device_where_unknown();
}

float Bandwidths::between_cpus() {
  const Cpu& cpu = machine_.cpu;
  if (cpu.arch == "ppc64") return 32.0F;
  if (cpu.arch == "arm64") return 6.0F;
  if (cpu.arch == "x86_64") {
    if (cpu.vendor == "GenuineIntel") return between_intel_sockets(cpu, rules_);
    if (cpu.vendor == "AuthenticAMD") return 16.0F;
    if (cpu.vendor == "CentaurHauls" || cpu.vendor == "  Shanghai  ") {
      return cpu.family == 7 && cpu.model == 0x5b ? 9.0F : 6.0F;
    }
  }
  if (cpu.arch.empty() || (cpu.arch == "x86_64" && cpu.vendor.empty())) {
    assume(
        "The kind of CPU is unknown, which NCCL asks the processor for where its file lacks it; "
        "the "
        "links between CPUs are taken to be no limit.");
  }
  return kLocalBandwidth;
}

}  // namespace gdr::topology::nccl
