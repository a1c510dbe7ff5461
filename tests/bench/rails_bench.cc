// Measures the planning of rails, and the prediction of what NCCL chooses. Run
// build/tests/rails_bench. Machines for rails: `switches` is 16 GPUs and
// 32 HCA ports, 8 switches below each of two sockets; `flat` is 72 GPUs and 72 HCAs of two speeds
// that are all equally near, so that they are one large group.
#include <benchmark/benchmark.h>

#include "tools/prediction/prediction.h"
#include "topology/builder.h"
#include "topology/grouping.h"
#include "topology/rails.h"

namespace gdr::topology {
namespace {

PciPosition below(int slot) {
  PciPosition position;
  uint8_t bus = static_cast<uint8_t>(16 * slot + 1);
  for (uint8_t i = 0; i < 3; ++i) {
    position.bridges.push_back(
        Bridge{Bdf{0, static_cast<uint8_t>(bus + i), 0, 0}, 0x060400, {}, {}});
  }
  position.numa = slot / 8;
  return position;
}

Machine large_machine() {
  Machine machine;
  for (int slot = 0; slot < 16; ++slot) {
    Gpu gpu;
    gpu.bdf = Bdf{1, static_cast<uint8_t>(slot), 0, 0};
    gpu.at = attach(&machine, below(slot));
    gpu.nvlinks = {NvLink{NvLink::To::kSwitch, std::nullopt, 18}};
    machine.gpus.push_back(gpu);
    Hca hca;
    hca.name = "mlx5_" + std::to_string(slot);
    hca.bdf = Bdf{2, static_cast<uint8_t>(slot), 0, 0};
    hca.at = gpu.at;
    hca.ports = {Port{1, Port::State::kActive, 400000, Port::LinkLayer::kInfiniBand},
                 Port{2, Port::State::kActive, 400000, Port::LinkLayer::kInfiniBand}};
    machine.hcas.push_back(hca);
  }
  return machine;
}

Machine flat_machine() {
  Machine machine;
  const Attachment at{-1, numa_index(&machine, 0), -1};
  for (int i = 0; i < 72; ++i) {
    Gpu gpu;
    gpu.bdf = Bdf{1, static_cast<uint8_t>(i), 0, 0};
    gpu.at = at;
    machine.gpus.push_back(gpu);
    Hca hca;
    hca.name = "mlx5_" + std::to_string(i);
    hca.bdf = Bdf{2, static_cast<uint8_t>(i), 0, 0};
    hca.at = at;
    hca.ports = {
        Port{1, Port::State::kActive, i % 8 == 0 ? 400000 : 200000, Port::LinkLayer::kInfiniBand}};
    machine.hcas.push_back(hca);
  }
  return machine;
}

void plan(benchmark::State& state, Machine machine) {
  for (auto _ : state) {
    sort(&machine);
    PathTable paths(machine);
    benchmark::DoNotOptimize(plan_rails(machine, paths, {}));
  }
}
BENCHMARK_CAPTURE(plan, switches, large_machine())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan, flat, flat_machine())->Unit(benchmark::kMicrosecond);

void group(benchmark::State& state) {
  Machine machine = flat_machine();
  PathTable paths(machine);
  const RailPlan rails = *plan_rails(machine, paths, {});
  for (auto _ : state) benchmark::DoNotOptimize(group_under_switches(machine, rails));
}
BENCHMARK(group)->Unit(benchmark::kMicrosecond);

// Machines with a switch for each GPU and its HCA, all GPUs on NVSwitches, and HCAs beside the
// CPUs.
Machine nvlink_machine(int gpus, int gpus_per_cpu, int hcas_of_cpus) {
  Machine machine;
  for (int i = 0; i < gpus + hcas_of_cpus; ++i) {
    const auto bus = static_cast<uint8_t>(i);
    PciPosition position;
    position.numa = (i % gpus) / gpus_per_cpu;
    if (i < gpus) position.bridges = {Bridge{Bdf{0, bus, 0, 0}, 0x060400, {}, {}}};
    if (i < gpus) position.bridges.push_back(Bridge{Bdf{3, bus, 0, 0}, 0x060400, {}, {}});
    Hca hca;
    hca.name = "mlx5_" + std::to_string(i);
    hca.bdf = Bdf{2, bus, 0, 0};
    hca.at = attach(&machine, position);
    hca.ports = {Port{1, Port::State::kActive, 400000, Port::LinkLayer::kInfiniBand}};
    machine.hcas.push_back(hca);
    if (i >= gpus) continue;
    Gpu gpu;
    gpu.bdf = Bdf{1, bus, 0, 0};
    gpu.at = hca.at;
    gpu.compute_capability = 100;
    gpu.nvlinks = {NvLink{NvLink::To::kSwitch, std::nullopt, 18}};
    machine.gpus.push_back(gpu);
  }
  return machine;
}

// 8 GPUs and 10 HCAs as on a server, and 72 of each in one NVLink domain.
void predict(benchmark::State& state, nccl::Release release, Machine machine) {
  sort(&machine);
  std::vector<PortRef> devices;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    devices.push_back(PortRef{static_cast<int>(hca), 0});
  }
  nccl::Settings settings;
  settings.release = release;
  for (auto _ : state) {
    const nccl::Prediction prediction(machine, devices, settings);
    if (!prediction.failure().empty()) state.SkipWithError(prediction.failure().c_str());
  }
}
BENCHMARK_CAPTURE(predict, 8x10_nccl_2_28, nccl::Release{2, 28, 9}, nvlink_machine(8, 4, 2))
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict, 8x10_nccl_2_30, nccl::Release{2, 30, 7}, nvlink_machine(8, 4, 2))
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict, 72x72_nccl_2_28, nccl::Release{2, 28, 9}, nvlink_machine(72, 2, 0))
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict, 72x72_nccl_2_30, nccl::Release{2, 30, 7}, nvlink_machine(72, 2, 0))
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gdr::topology

BENCHMARK_MAIN();
