// What lies between devices, as the pictures show it: NVLinks, NVLink-C2C, and the narrowest PCIe
// link of a path.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {

// The links of a GPU to one target beside PCIe (of AMD: xGMI).
struct GpuLink {
  enum class To {
    kGpu,     // `target` is an index in Machine::gpus, greater than `gpu`
    kSwitch,  // all NVSwitches together; `target` is -1
    kCpu,     // NVLinks to the GPU's NUMA node, `target` in Machine::numa_nodes or -1
    kC2c,     // NVLink-C2C to it
  };
  To to = To::kSwitch;
  int gpu = 0;
  int target = -1;
  int count = 0;  // 0: unknown
};

// Returns the links between two GPUs, each pair once, by GPU.
std::vector<GpuLink> links_between_gpus(const Machine& machine);

// Returns the number of links, "?" where it is unknown.
std::string count_text(const GpuLink& link);

const char* link_name(const Gpu& gpu);  // "NVLink"; "xGMI" for a GPU of AMD

// Returns a GPU's links in short: "NVLink x18, C2C x5", "NVLink x6 to 4 GPUs"; "" for none, and
// "NVLink unknown" where the source does not state them.
std::string gpu_links_text(const Machine& machine, size_t gpu);

// Returns the narrowest of the PCIe links on the path between a GPU and an HCA. Links of unknown
// speed or width do not count; {} where none is known.
PciLink narrowest_link(const Machine& machine, const Attachment& gpu, const PciLink& gpu_link,
                       const Attachment& hca, const PciLink& hca_link);

// Returns the words on the line of a pair: "PIX, 32 GT/s x16".
std::string pair_text(const RailDecision& decision, const RailPair& pair);

}  // namespace gdr::tools::topo
