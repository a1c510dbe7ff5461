// Small machines for the tests of rails and of the renderers.
#pragma once

#include <ostream>
#include <string>
#include <utility>

#include "tools/prediction/prediction.h"

namespace gdr::topology {

// The name of a machine among test parameters.
inline void PrintTo(const Machine& machine, std::ostream* out) {
  *out << machine.gpus.size() << " GPUs, " << machine.hcas.size() << " HCAs";
}

// The machine, sorted, with the rails planned on it. Tests of the plugin take the decision alone.
inline PredictedRails scene_of(Machine machine, const nccl::Settings& settings = {},
                               const RailOptions& options = {}) {
  sort(&machine);
  PathTable paths(machine);
  RailPlan plan = plan_rails(machine, paths, options).value();
  return predict(RailDecision{std::move(machine), std::move(paths), std::move(plan)}, settings);
}

inline Bdf bdf_of(int bus, int device = 0, int function = 0) {
  return Bdf{0, static_cast<uint8_t>(bus), static_cast<uint8_t>(device),
             static_cast<uint8_t>(function)};
}

inline Gpu make_gpu(const Bdf& bdf, const Attachment& at) {
  Gpu gpu;
  gpu.bdf = bdf;
  gpu.at = at;
  gpu.ids = PciIds{0x10de, 0x2330, 0x10de, 0x16c1};
  gpu.link = PciLink{32, 16};
  gpu.model = "NVIDIA H100";
  gpu.compute_capability = 90;
  return gpu;
}

inline Hca make_hca(const std::string& name, const Bdf& bdf, const Attachment& at, int ports = 1) {
  Hca hca;
  hca.name = name;
  hca.bdf = bdf;
  hca.at = at;
  hca.ids = PciIds{0x15b3, 0x1021, 0x15b3, 0x0041};
  hca.link = PciLink{32, 16};
  for (int i = 1; i <= ports; ++i) {
    hca.ports.push_back(Port{i, Port::State::kActive, 400000, Port::LinkLayer::kInfiniBand});
  }
  return hca;
}

inline int add_switch(Machine* machine, const Bdf& bdf, const Attachment& at) {
  Switch one;
  one.bdf = bdf;
  one.at = at;
  one.ids = PciIds{0x1000, 0xc030, 0x1000, 0x100b};
  one.link = PciLink{16, 16};
  machine->switches.push_back(one);
  return static_cast<int>(machine->switches.size()) - 1;
}

// Returns two packages of one NUMA node each, without devices.
inline Machine two_sockets() {
  Machine machine;
  machine.source = "made by hand";
  machine.cpu = Cpu{"x86_64", "GenuineIntel", 6, 143};
  machine.packages = {Package{0}, Package{1}};
  machine.numa_nodes = {NumaNode{0, 0, "ffff0000,0000ffff"}, NumaNode{1, 1, "0000ffff,ffff0000"}};
  return machine;
}

// Returns a machine with two host bridges on each socket, each with a switch of two GPUs and one
// HCA (8 GPUs, mlx5_0 to mlx5_3). On socket 0, beside the first switch, is the slow mlx5_4, whose
// port 2 is down.
inline Machine two_sockets_with_switches() {
  Machine machine = two_sockets();
  for (int i = 0; i < 4; ++i) {
    int bus = 0x10 + 0x20 * i;
    machine.host_bridges.push_back(HostBridge{0, static_cast<uint8_t>(bus)});
    Attachment at{-1, i / 2, i};
    at.parent = add_switch(&machine, bdf_of(bus + 1), at);
    machine.gpus.push_back(make_gpu(bdf_of(bus + 3), at));
    machine.hcas.push_back(make_hca("mlx5_" + std::to_string(i), bdf_of(bus + 4), at));
    machine.gpus.push_back(make_gpu(bdf_of(bus + 5), at));
  }
  Hca storage = make_hca("mlx5_4", bdf_of(0xe1), Attachment{-1, 0, 0}, 2);
  storage.ids.device = 0x1015;  // of another model than the others
  storage.ports[0].speed_mbps = 25000;
  storage.ports[1].speed_mbps = 25000;
  storage.ports[1].state = Port::State::kDown;
  machine.hcas.push_back(storage);
  return machine;
}

// Returns two GPUs and two HCAs on one switch.
inline Machine machine_with_one_switch() {
  Machine machine = two_sockets();
  const Attachment at{add_switch(&machine, bdf_of(1), Attachment{-1, 0, -1}), 0, -1};
  for (int i = 0; i < 2; ++i) {
    machine.gpus.push_back(make_gpu(bdf_of(0x10 + i), at));
    machine.hcas.push_back(make_hca("mlx5_" + std::to_string(i), bdf_of(0x20 + i), at));
  }
  return machine;
}

// Returns two_sockets_with_switches() with 18 NVLinks from each GPU to NVSwitches.
inline Machine with_nvlink() {
  Machine machine = two_sockets_with_switches();
  for (Gpu& gpu : machine.gpus) gpu.nvlinks = {NvLink{NvLink::To::kSwitch, {}, 18}};
  return machine;
}

// Returns a virtual machine that shows no switch.
inline Machine flat(int gpus, int hcas, int ports = 1) {
  Machine machine;
  machine.source = "a virtual machine";
  machine.numa_nodes = {NumaNode{0, -1, ""}};
  Attachment at{-1, 0, -1};
  for (int i = 0; i < gpus; ++i) machine.gpus.push_back(make_gpu(bdf_of(0x10 + i), at));
  for (int i = 0; i < hcas; ++i) {
    machine.hcas.push_back(make_hca("mlx5_" + std::to_string(i), bdf_of(0x40 + i), at, ports));
  }
  return machine;
}

// Returns a machine with a GPU on each socket but HCAs only on the first, so that one pair is SYS.
// The switch of socket 0 has another switch below it.
inline Machine lopsided() {
  Machine machine = two_sockets();
  machine.host_bridges = {HostBridge{0, 0x10}, HostBridge{0, 0x80}};
  Attachment near{-1, 0, 0};
  near.parent = add_switch(&machine, bdf_of(0x11), near);
  Attachment below = near;
  below.parent = add_switch(&machine, bdf_of(0x13), near);
  machine.gpus = {make_gpu(bdf_of(0x15), below), make_gpu(bdf_of(0x81), Attachment{-1, 1, 1})};
  machine.hcas = {make_hca("mlx5_0", bdf_of(0x16), near)};
  return machine;
}

}  // namespace gdr::topology
