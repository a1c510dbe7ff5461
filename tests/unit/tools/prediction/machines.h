// Machines and predictions for the tests of NCCL's rules.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tools/prediction/prediction.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology::nccl {

inline Machine committed(const std::string& name) {
  Result<Machine> machine = nccl_xml(std::string(GDR_TOPOLOGIES) + "/" + name);
  EXPECT_TRUE(machine) << machine.error().text;
  return machine ? *machine : Machine{};
}

// All ports of the machine, in its order.
inline std::vector<PortRef> all_ports(const Machine& machine) {
  std::vector<PortRef> ports;
  for (int hca = 0; hca < static_cast<int>(machine.hcas.size()); ++hca) {
    for (int port = 0; port < static_cast<int>(machine.hcas[hca].ports.size()); ++port) {
      ports.push_back({hca, port});
    }
  }
  return ports;
}

inline Settings of_release(const char* release) {
  Settings settings;
  settings.release = Release::parse(release).value();
  return settings;
}

inline Prediction predict_all(const Machine& machine, const Settings& settings) {
  return Prediction(machine, all_ports(machine), settings);
}

// Machines made by hand: x86 by AMD, PCIe 4.0 everywhere, two NUMA nodes.
class MadeMachine {
 public:
  MadeMachine() {
    machine.cpu = Cpu{"x86_64", "AuthenticAMD", 25, 1};
    machine.numa_nodes = {NumaNode{0, -1, ""}, NumaNode{1, -1, ""}};
    machine.gpu_links_known = true;
  }

  int add_switch(int parent, int numa) {
    Switch one;
    one.bdf = next();
    one.at = Attachment{parent, numa, -1, -1};
    one.link = PciLink{16, 16};
    machine.switches.push_back(one);
    return static_cast<int>(machine.switches.size()) - 1;
  }
  Gpu& add_gpu(int parent, int numa) {
    Gpu gpu;
    gpu.bdf = next();
    gpu.at = Attachment{parent, numa, -1, -1};
    gpu.link = PciLink{16, 16};
    gpu.compute_capability = 90;
    machine.gpus.push_back(gpu);
    return machine.gpus.back();
  }
  Hca& add_hca(int parent, int numa, int gbps = 100) {
    Hca hca;
    hca.name = "mlx5_" + std::to_string(machine.hcas.size());
    hca.bdf = next();
    hca.at = Attachment{parent, numa, -1, -1};
    hca.link = PciLink{16, 16};
    hca.ports.push_back(Port{1, Port::State::kActive, gbps * 1000, Port::LinkLayer::kInfiniBand});
    machine.hcas.push_back(hca);
    return machine.hcas.back();
  }
  void join_by_nvswitch() {
    for (Gpu& gpu : machine.gpus) gpu.nvlinks = {NvLink{NvLink::To::kSwitch, std::nullopt, 18}};
  }

  Machine machine;

 private:
  Bdf next() { return Bdf{0, static_cast<uint8_t>(++bus_), 0, 0}; }
  int bus_ = 0;
};

}  // namespace gdr::topology::nccl
