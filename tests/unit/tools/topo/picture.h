// What the tests of pictures share: machines of any shape, with every kind of link, and rectangles.
#pragma once

#include <random>

#include "tests/unit/topology/machines.h"
#include "tests/unit/topology/random_tree.h"
#include "tools/topo/layout.h"

namespace gdr::tools::topo {

// A tree of up to 16 GPUs and 16 HCAs with names, models and links of all kinds.
inline Machine random_picture(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
  Machine machine = topology::RandomTree(seed).machine();
  machine.source = "random numbers";
  if (below(2) == 0) machine.host = "node17";
  for (Gpu& gpu : machine.gpus) {
    const char* models[] = {"", "NVIDIA H100", "NVIDIA A100 with a name that is too long to fit"};
    gpu.model = models[below(3)];
    if (below(2) == 0) gpu.link = PciLink{32, 16};
  }
  for (Hca& hca : machine.hcas) {
    if (below(4) == 0) hca.name = "a_long_name_of_hca_" + hca.name;
  }
  const int kind = below(4);
  machine.gpu_links_known = kind > 0;
  for (Gpu& gpu : machine.gpus) {
    if (kind == 2) gpu.nvlinks.push_back({NvLink::To::kSwitch, {}, below(19)});
    if (kind != 3) continue;
    for (const Gpu& other : machine.gpus) {
      if (&other == &gpu || below(2) == 0) continue;
      gpu.nvlinks.push_back({NvLink::To::kGpu, other.bdf, 1 + below(6)});
    }
  }
  for (int bridge : {0, 1}) {
    machine.host_bridges.push_back(HostBridge{0, static_cast<uint8_t>(bridge)});
  }
  for (Gpu& gpu : machine.gpus) {
    if (gpu.at.parent < 0) gpu.at.host_bridge = below(3) - 1;
  }
  return machine;
}

inline bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

}  // namespace gdr::tools::topo
