// Random machines for the properties of rails.
#pragma once

#include <random>
#include <string>

#include "topology/builder.h"

namespace gdr::topology {

// A machine of up to 3 sockets, 8 switches in any order below each other, 16 GPUs and 16 HCAs with
// ports of mixed speeds, some of them down.
class RandomTree {
 public:
  explicit RandomTree(unsigned seed) : random_(seed) {
    int sockets = 1 + pick(3), gpus = pick(17), hcas = 1 + pick(16);
    for (int i = 0; i < sockets; ++i) numa_index(&machine_, i);
    if (pick(2) == 0) {
      machine_.packages = {Package{0}, Package{1}};
      for (NumaNode& node : machine_.numa_nodes) node.package = pick(3) - 1;
    }
    for (int i = pick(9); i > 0; --i) add_switch(sockets);
    for (int i = 0; i < gpus; ++i) {
      Gpu gpu;
      gpu.bdf = unique_bdf();
      gpu.at = somewhere(sockets);
      gpu.c2c_links = pick(8) == 0 ? 1 : 0;
      machine_.gpus.push_back(gpu);
    }
    for (int i = 0; i < hcas; ++i) add_hca(i, sockets);
  }
  Machine& machine() { return machine_; }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Bdf unique_bdf() {
    ++used_;
    return Bdf{0, static_cast<uint8_t>(used_ / 32), static_cast<uint8_t>(used_ % 32), 0};
  }
  Attachment somewhere(int sockets) {
    int parent = pick(static_cast<int>(machine_.switches.size()) + 1) - 1;
    if (parent < 0) return Attachment{-1, pick(sockets), -1};
    Attachment at = machine_.switches[parent].at;
    at.parent = parent;
    return at;
  }
  void add_switch(int sockets) {
    machine_.switches.push_back(Switch{unique_bdf(), somewhere(sockets), 0x060400, {}, {}});
  }
  void add_hca(int number, int sockets) {
    Hca hca;
    hca.name = "mlx5_" + std::to_string(number);
    hca.at = somewhere(sockets);
    if (pick(10) > 0) hca.bdf = unique_bdf();
    constexpr int kSpeeds[] = {0, 25000, 100000, 200000, 400000, 400000, 400000};
    for (int port = 1; port <= (pick(4) == 0 ? 2 : 1); ++port) {
      hca.ports.push_back(Port{port, pick(8) == 0 ? Port::State::kDown : Port::State::kActive,
                               kSpeeds[pick(7)], Port::LinkLayer::kInfiniBand});
    }
    machine_.hcas.push_back(hca);
  }

  std::mt19937 random_;
  Machine machine_;
  int used_ = 0;
};

}  // namespace gdr::topology
