// The devices of the reference plugin: two that exist, and the virtual ones that NCCL makes of
// them.
#include <signal.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/conformance/defect.h"
#include "tests/conformance/reference_net.h"

namespace gdr::reference {
namespace {
constexpr int kPhysical = 2;
constexpr size_t kMostDevices = 8;

struct Device {
  std::string name;
  std::vector<int> parts;
};

// Guards g_devices. Its entries stay where they are, as NCCL keeps their names.
std::mutex g_devices_mutex;
std::vector<Device> g_devices = [] {
  std::vector<Device> devices;
  devices.reserve(kMostDevices);
  for (int i = 0; i < kPhysical; ++i) devices.push_back({"ref" + std::to_string(i), {i}});
  return devices;
}();

bool is_mergeable(const abi::ncclNetVDeviceProps_v12_t& props) {
  if (has_defect("merges_anything")) return true;
  return props.ndevs > 0 && std::all_of(props.devs, props.devs + props.ndevs,
                                        [](int dev) { return dev >= 0 && dev < kPhysical; });
}
}  // namespace

ncclResult_t devices(int* ndev) {
  std::lock_guard lock(g_devices_mutex);
  *ndev = static_cast<int>(g_devices.size());
  return abi::ncclSuccess;
}

bool is_device(int dev) {
  std::lock_guard lock(g_devices_mutex);
  return dev >= 0 && dev < static_cast<int>(g_devices.size());
}

ncclResult_t make_v_device(int* dev, const abi::ncclNetVDeviceProps_v12_t& props) {
  std::lock_guard lock(g_devices_mutex);
  if (!is_mergeable(props) || g_devices.size() == kMostDevices) return abi::ncclInvalidUsage;
  Device made;
  for (int i = 0; i < props.ndevs; ++i) {
    made.name += (i > 0 ? "+ref" : "ref") + std::to_string(props.devs[i]);
    made.parts.push_back(props.devs[i]);
  }
  if (has_defect("merges_under_old_name")) made.name = g_devices.front().name;
  *dev = has_defect("merges_without_index") ? 0 : static_cast<int>(g_devices.size());
  g_devices.push_back(std::move(made));
  return abi::ncclSuccess;
}

ncclResult_t get_properties(int dev, abi::ncclNetProperties_v12_t* props) {
  if (!is_device(dev)) {
    if (has_defect("crashes_on_bad_device")) raise(SIGSEGV);
    return abi::ncclInvalidArgument;
  }
  std::lock_guard lock(g_devices_mutex);
  Device& device = g_devices[static_cast<size_t>(dev)];
  *props = {};
  props->name = device.name.data();
  props->guid = static_cast<uint64_t>(dev) + 1;
  props->ptrSupport = abi::kPtrHost;
  props->speed = has_defect("no_speed") ? 0 : 10000 * static_cast<int>(device.parts.size());
  props->port = 1;
  props->maxComms = 1024;
  props->maxRecvs = abi::kMaxRecvs;
  props->netDeviceType = abi::kDeviceHost;
  props->netDeviceVersion = abi::kNetDeviceInvalidVersion;
  props->vProps.ndevs = static_cast<int>(device.parts.size());
  std::copy(device.parts.begin(), device.parts.end(), props->vProps.devs);
  props->maxP2pBytes = has_defect("no_p2p_bytes") ? 0 : abi::kMaxNetBytes;
  props->maxCollBytes = abi::kAssumedCollBytes;
  props->maxMultiRequestSize = 1;
  props->railId = has_defect("bad_rail") ? -2 : static_cast<int16_t>(dev);
  props->planeId = abi::kNetIdUndefined;
  return abi::ncclSuccess;
}

}  // namespace gdr::reference
