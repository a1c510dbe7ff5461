// Random machines for the tests of the pictures: of any shape, with every kind of link.
#pragma once

#include <random>
#include <string>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {

class RandomMachine {
 public:
  explicit RandomMachine(unsigned seed) : random_(seed) {}

  topology::Machine make(int gpus, int hcas, int max_ports) {
    add_sockets();
    for (int i = below(gpus + 1); i > 0; --i) add_switch();
    for (int i = 0; i < gpus; ++i) {
      machine_.gpus.push_back(topology::make_gpu(next_bdf(), somewhere()));
      const char* models[] = {"", "NVIDIA H100", "NVIDIA A100 with a name that is too long to fit"};
      machine_.gpus.back().model = models[below(3)];
      if (below(2) == 0) machine_.gpus.back().link = {};
    }
    for (int i = 0; i < hcas; ++i) {
      const std::string name =
          (below(4) == 0 ? "a_long_name_of_hca_" : "mlx5_") + std::to_string(i);
      const int ports = 1 + below(max_ports);
      machine_.hcas.push_back(topology::make_hca(name, next_bdf(), somewhere(), ports));
      if (below(4) == 0) machine_.hcas.back().ports[0].state = topology::Port::State::kDown;
      if (below(4) == 0) machine_.hcas.back().ports[0].speed_mbps = 25000;
    }
    add_links();
    return machine_;
  }

 private:
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  topology::Bdf next_bdf() {
    const int number = next_++;
    return topology::Bdf{static_cast<uint32_t>(number / 0xf0),
                         static_cast<uint8_t>(0x01 + number % 0xf0), 0, 0};
  }

  void add_sockets() {
    machine_.source = "random numbers";
    if (below(2) == 0) machine_.host = "node17";
    const int sockets = 1 + below(2), nodes = 1 + below(4), bridges = below(3);
    for (int socket = 0; socket < sockets; ++socket) {
      machine_.packages.push_back(topology::Package{socket});
      for (int node = 0; node < nodes; ++node) {
        machine_.numa_nodes.push_back(
            topology::NumaNode{socket * nodes + node, socket, below(2) == 0 ? "" : "55555555"});
      }
    }
    for (int i = 0; i < bridges; ++i) {
      machine_.host_bridges.push_back(topology::HostBridge{0, static_cast<uint8_t>(i)});
    }
  }

  topology::Attachment somewhere() {
    topology::Attachment at;
    at.numa = below(static_cast<int>(machine_.numa_nodes.size()));
    if (!machine_.host_bridges.empty()) {
      at.host_bridge = below(static_cast<int>(machine_.host_bridges.size()));
    }
    if (machine_.switches.empty() || below(4) == 0) return at;
    at.parent = below(static_cast<int>(machine_.switches.size()));
    at.numa = machine_.switches[static_cast<size_t>(at.parent)].at.numa;
    at.host_bridge = machine_.switches[static_cast<size_t>(at.parent)].at.host_bridge;
    return at;
  }

  void add_switch() {
    const topology::Attachment at = somewhere();
    topology::add_switch(&machine_, next_bdf(), at);
  }

  void add_links() {
    using To = topology::NvLink::To;
    const int kind = below(5);
    machine_.gpu_links_known = kind > 0;
    for (topology::Gpu& gpu : machine_.gpus) {
      if (kind == 2 || kind == 4) gpu.nvlinks.push_back({To::kSwitch, {}, below(19)});
      if (kind == 3 || kind == 4) gpu.c2c_links = 5;
      if (kind != 1) continue;
      for (const topology::Gpu& other : machine_.gpus) {
        if (&other != &gpu && below(2) == 0)
          gpu.nvlinks.push_back({To::kGpu, other.bdf, 1 + below(6)});
      }
    }
  }

  std::mt19937 random_;
  int next_ = 0;
  topology::Machine machine_;
};

}  // namespace gdr::tools::topo
