#include <algorithm>
#include <bit>
#include <climits>

#include "tools/prediction/gpudirect.h"

namespace gdr::topology::nccl {
namespace {

// Returns the lowest bits of `value`, as many as `power_of_two` counts, in reverse order. NCCL
// spreads neighbouring GPUs over the devices in this way.
size_t mirrored(size_t value, size_t power_of_two) {
  size_t result = 0;
  for (size_t bit = 1, mirror = power_of_two >> 1; bit < power_of_two; bit <<= 1, mirror >>= 1) {
    if ((value & bit) != 0) result |= mirror;
  }
  return result;
}

}  // namespace

LocalDevices::LocalDevices(const Machine& machine, const Graph& graph, const Paths& paths,
                           const Rules& rules, const NetDevicesPolicy& policy)
    : machine_(machine),
      graph_(graph),
      paths_(paths),
      rules_(rules),
      policy_(rules.has_devices_policy ? policy : NetDevicesPolicy{}),
      used_(graph.nodes.size()) {}

// Of equal bandwidth, the nearest; and of these, all.
std::vector<int> LocalDevices::nearest(int from, const std::vector<int>& candidates) const {
  std::vector<int> found;
  float fastest = 0;
  int least = INT_MAX;
  for (int candidate : candidates) {
    const Path& path = paths_.between(from, candidate);
    const int rank = paths_.rank(path);
    const float gb_per_s = path.gb_per_s;
    if (gb_per_s > fastest || (gb_per_s == fastest && rank < least)) {
      fastest = gb_per_s;
      least = rank;
      found.clear();
    }
    if (gb_per_s == fastest && rank == least) found.push_back(candidate);
  }
  return found;
}

int LocalDevices::local_cpu(int gpu) const {
  const std::vector<int> candidates = rules_.fastest_cpu ? nearest(gpu, graph_.cpus) : graph_.cpus;
  return *std::min_element(candidates.begin(), candidates.end(), [&](int a, int b) {
    return paths_.between(gpu, a).hops < paths_.between(gpu, b).hops;
  });
}

std::vector<int> LocalDevices::fastest_devices(int gpu) const { return nearest(gpu, graph_.nets); }

size_t LocalDevices::first_device(int gpu, size_t devices, size_t gpus) const {
  auto number = static_cast<size_t>(gpu_number(gpu));
  if (rules_.counts_from_zero) number %= gpus;
  return std::has_single_bit(devices) ? mirrored(number, devices) : number;
}

std::vector<int> LocalDevices::compute_devices(int gpu, GpuDevices* used) const {
  const std::vector<int> devices = fastest_devices(gpu);
  if (devices.empty()) return {};
  used->nearest = devices[0];
  const size_t gpus = std::max<size_t>(nearest(devices[0], graph_.gpus).size(), 1);
  size_t count = (devices.size() + gpus - 1) / gpus;
  if (policy_.kind == NetDevicesPolicy::Kind::kAll) count = devices.size();
  if (policy_.kind == NetDevicesPolicy::Kind::kMax && policy_.max > 0) {
    count = std::min(static_cast<size_t>(policy_.max), devices.size());
  }
  const size_t first = first_device(gpu, devices.size(), gpus);
  std::vector<int> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(devices[(first + i) % devices.size()]);
  return chosen;
}

const std::vector<int>& LocalDevices::devices_of_gpu(int gpu) {
  GpuDevices& one = used(gpu);
  if (!one.known) one.devices = compute_devices(gpu, &one);
  one.known = true;
  return one.devices;
}

// The first of the device's nearest GPUs that uses it, in the order of channels.
int LocalDevices::local_gpu(int device) {
  const std::vector<int> gpus = nearest(device, graph_.gpus);
  int found = -1;
  auto first_channel = static_cast<size_t>(rules_.max_channels);
  for (int gpu : gpus) {
    const std::vector<int>& devices = devices_of_gpu(gpu);
    const auto at =
        static_cast<size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
    if (at == devices.size() || at >= first_channel) continue;
    first_channel = at;
    found = gpu;
  }
  return found;
}

void LocalDevices::invalidate(int gpu, int device) {
  used(gpu).known = false;
  for (int other : graph_.gpus) {
    if (used(other).nearest == device) used(other).known = false;
  }
}

// NVML's number of the GPU; where it is unknown, its position among the PCI addresses.
int LocalDevices::gpu_number(int gpu) const {
  const auto index = static_cast<size_t>(graph_.nodes[static_cast<size_t>(gpu)].index);
  if (machine_.gpus[index].dev >= 0) return machine_.gpus[index].dev;
  int number = 0;
  for (size_t i = 0; i < index; ++i) {
    if (machine_.gpus[i].bdf != machine_.gpus[i + 1].bdf) ++number;
  }
  return number;
}

}  // namespace gdr::topology::nccl
