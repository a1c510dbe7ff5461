// The devices of the configuration, as ibv_device.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "softhca/model/config.h"

namespace softhca {

class Process;
class Runtime;

enum class DeviceHealth {
  kWorking,
  kFatal,    // as after IBV_EVENT_DEVICE_FATAL: objects can only be stopped and destroyed
  kRemoved,  // as after the kernel took the device away: every call fails
};

struct Device {
  ibv_device verbs;
  // A driver that checks whether a device is its own (mlx5dv_is_supported) takes the ibv_device for
  // the start of rdma-core's verbs_device and reads past it.
  uint8_t verbs_device_tail[1024];
  uint32_t index;
  const DeviceConfig* config;
  Process* process;
  Runtime* runtime;
  std::atomic<DeviceHealth> health;
  std::atomic<uint32_t> qps;  // of this process

  // Returns 0, or the errno with which the calls of a device that has failed fail.
  int error() const { return health.load() == DeviceHealth::kWorking ? 0 : EIO; }
  bool removed() const { return health.load() == DeviceHealth::kRemoved; }

  static Device& of(ibv_device* device) { return *reinterpret_cast<Device*>(device); }
};

// Makes one Device per configured device.
std::vector<Device*> make_devices(Process& process, Runtime& runtime);

// As ibv_query_device.
void query_device(const Device& device, ibv_device_attr* attr);
// As ibv_query_port: 0 or EINVAL. `bytes` is the size of the structure that the caller was built
// with; what it has beyond the fields known here is set to zero.
int query_port(const Device& device, uint32_t number, ibv_port_attr* attr, size_t bytes);

}  // namespace softhca
